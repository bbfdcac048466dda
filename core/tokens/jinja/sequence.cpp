#include <algorithm>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/print.hpp"
#include "core/tokens/jinja/text.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

// Python's slice.indices.
struct Indices {
    std::int64_t start;
    std::int64_t count;
    std::int64_t step;
};

Indices indices(std::int64_t length, const Value& from, const Value& to, std::int64_t step) {
    const std::int64_t lowest = step > 0 ? 0 : -1;
    const std::int64_t highest = step > 0 ? length : length - 1;
    const auto place = [&](const Value& v, std::int64_t absent) {
        if (v.is_none()) {
            return absent;
        }
        std::int64_t i = v.as_int();
        if (i < 0) {
            i = i < -length ? lowest : std::max(i + length, lowest);
        }
        return std::min(i, highest);
    };
    const std::int64_t start = place(from, step > 0 ? lowest : highest);
    const std::int64_t stop = place(to, step > 0 ? highest : lowest);
    const std::int64_t distance = step > 0 ? stop - start : start - stop;
    // Larger steps than the text is long all mean one item; this keeps -step in range.
    const std::int64_t width = step > 0 ? step : step < -length ? length + 1 : -step;
    return {start, distance <= 0 ? 0 : (distance - 1) / width + 1, step};
}

}  // namespace

Value Interp::text(std::string_view s) {
    const Value v = copy_text(arena_, s);
    if (v.size != s.size()) {
        return fail(Code::Limit, "the template uses too much memory");
    }
    return v;
}

Value Interp::text_like(const Value& model, std::string_view s, bool copy) {
    Value v = copy ? text(s) : Value::of(s);
    v.flag = model.is_markup() ? 1 : 0;
    return v;
}

std::string_view Interp::str(const Value& v) {
    if (v.is_string()) {
        return v.str();
    }
    if (v.is_undefined()) {
        return "";
    }
    return text(repr(v)).str();
}

std::string Interp::repr(const Value& v) {
    std::string out;
    if (!append_repr(out, v, bounds_.output_bytes)) {
        print_error(v);
    }
    charge(out.size() / 64);
    return out;
}

void Interp::push(ListData& list, Value v) {
    if (!append(arena_, list, v)) {
        fail(Code::Limit, "the template uses too much memory");
    }
}

Value Interp::tuple(std::initializer_list<Value> items) {
    ListData* out = list(items.size());
    for (const Value& v : items) {
        push(*out, v);
    }
    return Value::of(out, Kind::Tuple);
}

bool Interp::is_iterable(const Value& v) {
    switch (v.kind) {
        case Kind::Undefined:
        case Kind::String:
        case Kind::List:
        case Kind::Tuple:
        case Kind::Dict:
        case Kind::DictKeys:
        case Kind::DictValues:
        case Kind::DictItems:
        case Kind::Range:
        case Kind::Generator:
            return true;
        default:
            return false;
    }
}

std::span<const Value> Interp::items_of(const Value& v) {
    if (failed()) {
        return {};
    }
    switch (v.kind) {
        case Kind::Undefined:
            return {};
        case Kind::List:
        case Kind::Tuple:
            return v.list->view();
        case Kind::Generator: {
            const auto rest = v.list->view().subspan(v.list->taken);
            v.list->taken = v.list->size;
            return rest;
        }
        default:
            break;
    }
    ListData* out = nullptr;
    if (v.is_string()) {
        charge(v.size / 4);
        out = list(failed() ? 0 : v.size);
        for (std::size_t at = 0; at < v.size && !failed();) {
            const std::size_t start = at;
            next_code_point(v.str(), at);
            push(*out, Value::of(v.str().substr(start, at - start)));
        }
    } else if (v.is(Kind::Range)) {
        charge(static_cast<std::uint64_t>(v.range->count));
        out = list();
        for (std::int64_t i = 0; i < v.range->count && !failed(); ++i) {
            push(*out, Value::of(v.range->start + i * v.range->step));
        }
    } else if (is_iterable(v)) {
        charge(v.dict->size);
        out = list(v.dict->size);
        for (const DictEntry& e : v.dict->view()) {
            push(*out, v.is(Kind::DictItems)    ? tuple({e.key, e.value})
                       : v.is(Kind::DictValues) ? e.value
                                                : e.key);
        }
    } else {
        type_error("'" + std::string(type_name(v)) + "' object is not iterable");
        return {};
    }
    return out->view();
}

std::optional<std::int64_t> Interp::length(const Value& v) {
    switch (v.kind) {
        case Kind::Undefined:
            return 0;
        case Kind::String:
            return static_cast<std::int64_t>(count_code_points(v.str()));
        case Kind::Bytes:
            return v.size;
        case Kind::List:
        case Kind::Tuple:
            return v.list->size;
        case Kind::Dict:
        case Kind::DictKeys:
        case Kind::DictValues:
        case Kind::DictItems:
            return v.dict->size;
        case Kind::Range:
            return v.range->count;
        case Kind::Loop:
            return static_cast<std::int64_t>(v.loop->items.size());
        default:
            return std::nullopt;
    }
}

Value Interp::slice(const Value& of, const Value& from, const Value& to, const Value& by) {
    if (of.is_undefined()) {
        return fail(Code::Invalid, describe_undefined(of));
    }
    const auto is_place = [](const Value& v) {
        return v.is_none() || v.is_int();
    };
    const std::int64_t step = by.is_int() ? by.as_int() : 1;
    const bool is_list = of.is(Kind::List) || of.is(Kind::Tuple) || of.is(Kind::Range);
    if (!is_place(from) || !is_place(to) || !is_place(by) || (!is_list && !of.is_string())) {
        return Value::undefined("slice", of.kind);
    }
    if (step == 0) {
        return type_error("slice step cannot be zero");
    }
    if (of.is_string()) {
        const std::string_view s = of.str();
        charge(s.size() / 64);
        const Indices i = indices(static_cast<std::int64_t>(count_code_points(s)), from, to, step);
        if (step == 1 || i.count == 0) {
            const std::size_t at =
                code_point_offset(s, static_cast<std::size_t>(std::max<std::int64_t>(i.start, 0)));
            const std::string_view rest = s.substr(at);
            return text_like(
                of, rest.substr(0, code_point_offset(rest, static_cast<std::size_t>(i.count))),
                false);
        }
        const auto chars = items_of(of);
        std::string out;
        for (std::int64_t k = 0; k < i.count && !failed(); ++k) {
            out.append(chars[static_cast<std::size_t>(i.start + k * step)].str());
        }
        return text_like(of, out, true);
    }
    const auto items = items_of(of);
    const Indices i = indices(static_cast<std::int64_t>(items.size()), from, to, step);
    if (step == 1 && !failed()) {
        auto* view = arena_.make<ListData>();
        view->items = const_cast<Value*>(items.data()) + i.start;
        view->size = view->capacity = static_cast<std::uint32_t>(i.count);
        return Value::of(view, of.is(Kind::Tuple) ? Kind::Tuple : Kind::List);
    }
    charge(static_cast<std::uint64_t>(i.count) / 4);
    ListData* out = list(static_cast<std::size_t>(i.count));
    for (std::int64_t k = 0; k < i.count && !failed(); ++k) {
        push(*out, items[static_cast<std::size_t>(i.start + k * step)]);
    }
    return Value::of(out, of.is(Kind::Tuple) ? Kind::Tuple : Kind::List);
}

}  // namespace sluice::tokens::jinja
