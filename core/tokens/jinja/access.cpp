#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/print.hpp"
#include "core/tokens/jinja/text.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

// The bytes of code point `index` (negative: from the end); empty if out of range.
std::string_view character(std::string_view text, std::int64_t index) {
    std::size_t at = 0;
    if (index < 0) {
        at = text.size();
        for (; index < 0 && at > 0; ++index) {
            at = previous_code_point(text, at);
        }
        if (index < 0) {
            return {};
        }
    } else {
        at = code_point_offset(text, static_cast<std::size_t>(index));
    }
    std::size_t end = at;
    if (at < text.size()) {
        next_code_point(text, end);
    }
    return text.substr(at, end - at);
}

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
        fail(Code::Limit, "a printed value is too large");
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

Value Interp::attribute(const Value& of, std::string_view name, Method method) {
    if (of.is_undefined()) {
        return fail(Code::Invalid, describe_undefined(of));
    }
    if (has_method(of.kind, method)) {
        if (is_refused(method)) {
            return Value::undefined(name, of.kind);
        }
        auto* bound = arena_.make<MethodData>();
        bound->self = of;
        bound->method = method;
        Value v = Value::of(Kind::Method);
        v.method = bound;
        return v;
    }
    if (of.is(Kind::Dict) || of.is(Kind::Namespace)) {
        if (const Value* found = find(*of.dict, name)) {
            return *found;
        }
    } else if (of.is(Kind::Loop)) {
        return loop_attribute(of, name);
    }
    return Value::undefined(name, of.kind);
}

Value Interp::item(const Value& of, const Value& key) {
    if (of.is_undefined()) {
        return fail(Code::Invalid, describe_undefined(of));
    }
    if (of.is_dict() && hashable(key)) {
        if (const Value* found = find(*of.dict, key)) {
            return *found;
        }
    }
    if (key.is_string()) {
        const Method method = method_named(key.str());
        if (of.is_dict() && method == Method::None) {
            return Value::undefined(key.str(), Kind::Dict);
        }
        return attribute(of, key.str(), method);
    }
    if (!key.is_int()) {
        return Value::undefined(str(key), of.kind);
    }
    const std::int64_t index = key.as_int();
    if (of.is(Kind::List) || of.is(Kind::Tuple)) {
        const std::int64_t at = index < 0 ? index + of.list->size : index;
        if (at >= 0 && at < of.list->size) {
            return of.list->items[at];
        }
    } else if (of.is_string()) {
        const std::string_view c = character(of.str(), index);
        if (!c.empty()) {
            return text_like(of, c, false);
        }
    } else if (of.is(Kind::Range)) {
        const std::int64_t at = index < 0 ? index + of.range->count : index;
        if (at >= 0 && at < of.range->count) {
            return Value::of(of.range->start + at * of.range->step);
        }
    }
    return Value::undefined(str(key), of.kind);
}

Value Interp::path(Value of, const Value& dotted) {
    if (dotted.is_int()) {
        return item(of, dotted);
    }
    std::string_view rest = str(dotted);
    for (;;) {
        const std::size_t dot = rest.find('.');
        const std::string_view part = rest.substr(0, dot);
        std::int64_t index = 0;
        const auto r = std::from_chars(part.data(), part.data() + part.size(), index);
        const bool is_index =
            r.ec == std::errc() && r.ptr == part.data() + part.size() && part[0] != '-';
        of = item(of, is_index ? Value::of(index) : Value::of(part));
        if (dot == std::string_view::npos || failed()) {
            return of;
        }
        rest.remove_prefix(dot + 1);
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

Value Interp::loop_attribute(const Value& loop, std::string_view name) {
    const LoopData& l = *loop.loop;
    const std::size_t n = l.items.size();
    const std::size_t at = std::min(l.index, n - 1);  // after the loop it stays at the last item
    if (name == "index0") {
        return Value::of(at);
    }
    if (name == "index") {
        return Value::of(at + 1);
    }
    if (name == "first") {
        return Value::of(at == 0);
    }
    if (name == "last") {
        return Value::of(at + 1 == n);
    }
    if (name == "length") {
        return Value::of(n);
    }
    if (name == "revindex") {
        return Value::of(n - at);
    }
    if (name == "revindex0") {
        return Value::of(n - at - 1);
    }
    if (name == "previtem") {
        return at > 0 ? l.items[at - 1] : Value::undefined("there is no previous item");
    }
    if (name == "nextitem") {
        return at + 1 < n ? l.items[at + 1] : Value::undefined("there is no next item");
    }
    if (name == "depth") {
        return Value::of(l.depth);
    }
    if (name == "depth0") {
        return Value::of(l.depth - 1);
    }
    return Value::undefined(name, Kind::Loop);
}

Value Interp::call(const Value& callee, const Args& args) {
    switch (callee.kind) {
        case Kind::Macro:
            return call_macro(*callee.macro, args);
        case Kind::Function:
            return call_function(callee, args);
        case Kind::Method:
            return call_method(*this, callee.method->self, callee.method->method, args);
        case Kind::Loop:
            return call_loop(*callee.loop, args);
        case Kind::Undefined: {
            const auto owner = static_cast<Kind>(callee.flag);
            const Method method = method_named(callee.str());
            if (is_refused(method) && has_method(owner, method)) {
                return call_method(*this, Value::of(owner), method, args);
            }
            return fail(Code::Invalid, describe_undefined(callee));
        }
        default:
            return type_error("'" + std::string(type_name(callee)) + "' object is not callable");
    }
}

Value Interp::call_function(const Value& callee, const Args& args) {
    const auto function = static_cast<Function>(callee.integer);
    const auto& p = args.positional;
    switch (function) {
        case Function::Range: {
            if (p.empty() || p.size() > 3 || !args.named.empty() ||
                !std::ranges::all_of(p, [](const Value& v) { return v.is_int(); })) {
                return type_error("range expects 1 to 3 integers");
            }
            auto* range = arena_.make<RangeData>();
            range->start = p.size() > 1 ? p[0].as_int() : 0;
            range->step = p.size() > 2 ? p[2].as_int() : 1;
            const std::int64_t stop = p.size() > 1 ? p[1].as_int() : p[0].as_int();
            constexpr std::int64_t kMost = std::int64_t{1} << 40;
            const auto is_far = [](std::int64_t v) {
                return v > kMost || v < -kMost;
            };
            if (range->step == 0) {
                return type_error("range() arg 3 must not be zero");
            }
            if (is_far(range->start) || is_far(stop) || is_far(range->step)) {
                return fail(Code::Limit, "a range is too large");
            }
            const std::int64_t span = range->step > 0 ? stop - range->start : range->start - stop;
            const std::int64_t width = range->step > 0 ? range->step : -range->step;
            range->count = span <= 0 ? 0 : (span - 1) / width + 1;
            // The sandbox's own bound.
            if (range->count > 100'000) {
                return type_error(
                    "Range too big. The sandbox blocks ranges larger than "
                    "MAX_RANGE (100000).");
            }
            Value v = Value::of(Kind::Range);
            v.range = range;
            return v;
        }
        case Function::Namespace:
        case Function::Dict: {
            DictData* dict = make_dict(arena_, args.named.size());
            if (p.size() > 1) {
                return type_error("dict expected at most 1 argument, got " +
                                  std::to_string(p.size()));
            }
            if (!p.empty() && p[0].is_dict()) {
                for (const DictEntry& e : p[0].dict->view()) {
                    put(arena_, *dict, e.key, e.value);
                }
            } else if (!p.empty()) {
                for (const Value& pair : items_of(p[0])) {
                    const auto parts = items_of(pair);
                    if (failed() || parts.size() != 2 || !hashable(parts[0])) {
                        return type_error("cannot convert a sequence to a dict");
                    }
                    put(arena_, *dict, parts[0], parts[1]);
                }
            }
            for (const KeywordArg& named : args.named) {
                put(arena_, *dict, named.name, named.value);
            }
            return Value::of(dict, function == Function::Dict ? Kind::Dict : Kind::Namespace);
        }
        case Function::RaiseException: {
            if (p.size() + args.named.size() != 1) {
                return type_error("raise_exception expects one message");
            }
            return fail(Code::Invalid, std::string(str(p.empty() ? args.named[0].value : p[0])));
        }
        case Function::StrftimeNow:
            if (p.size() != 1 || !p[0].is_string()) {
                return type_error("strftime_now expects a format");
            }
            return format_time(*this, p[0].str());
    }
    return {};
}

}  // namespace sluice::tokens::jinja
