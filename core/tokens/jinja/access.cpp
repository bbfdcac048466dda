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

}  // namespace

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
