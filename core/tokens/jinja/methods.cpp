#include <algorithm>
#include <array>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/methods.hpp"
#include "core/tokens/jinja/text.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

constexpr std::array<std::string_view, 2> kNone{};

Value dict_method(Interp& in, const Value& self, Method method, const Args& args) {
    static constexpr std::array<std::string_view, 2> kGet{"key", "default"};
    Bound bound;
    if (method == Method::Get) {
        if (!args.named.empty()) {
            return in.type_error("dict.get() takes no keyword arguments");
        }
        if (!match_args(in, "get", kGet, 1, args, bound)) {
            return {};
        }
        if (!hashable(*bound[0])) {
            return in.type_error("unhashable type: '" + std::string(type_name(*bound[0])) + "'");
        }
        if (const Value* found = find(*self.dict, *bound[0])) {
            return *found;
        }
        return bound.has(1) ? *bound[1] : Value::none();
    }
    if (!match_args(in, method_name(method), kNone, 0, args, bound)) {
        return {};
    }
    switch (method) {
        case Method::Items:
            return Value::of(self.dict, Kind::DictItems);
        case Method::Keys:
            return Value::of(self.dict, Kind::DictKeys);
        case Method::Values:
            return Value::of(self.dict, Kind::DictValues);
        default:
            return self;  // copy(): nothing changes a dict, so it is its own copy
    }
}

Value sequence_method(Interp& in, const Value& self, Method method, const Args& args) {
    if (method == Method::Copy) {
        return self;
    }
    if (args.positional.empty() || !args.named.empty()) {
        return in.type_error(std::string(method_name(method)) + "() expects an item");
    }
    const auto items = in.items_of(self);
    in.charge(items.size() / 4);
    const Value& wanted = args.positional[0];
    if (method == Method::Count) {
        return Value::of(static_cast<std::int64_t>(
            std::ranges::count_if(items, [&](const Value& v) { return equal(v, wanted); })));
    }
    const auto at = std::ranges::find_if(items, [&](const Value& v) { return equal(v, wanted); });
    return at == items.end() ? in.type_error("the value is not in the list")
                             : Value::of(static_cast<std::int64_t>(at - items.begin()));
}

Value loop_method(Interp& in, const Value& self, Method method, const Args& args) {
    LoopData& loop = *self.loop;
    if (method == Method::Cycle) {
        if (args.positional.empty()) {
            return in.type_error("no items for cycling given");
        }
        return args.positional[loop.index % args.positional.size()];
    }
    ListData* seen = in.list(args.positional.size());
    for (const Value& v : args.positional) {
        in.push(*seen, v);
    }
    const Value now = Value::of(seen, Kind::Tuple);
    const bool is_changed = !loop.has_seen || !equal(loop.last_seen, now);
    loop.has_seen = true;
    loop.last_seen = now;
    return Value::of(is_changed);
}

}  // namespace

Value call_method(Interp& in, const Value& self, Method method, const Args& args) {
    if (is_refused(method)) {
        return in.fail(Code::Invalid, "access to attribute '" + std::string(method_name(method)) +
                                          "' of '" + std::string(type_name(self)) +
                                          "' object is unsafe.");
    }
    switch (self.kind) {
        case Kind::String:
            return text_method(in, self, method, args);
        case Kind::Dict:
            return dict_method(in, self, method, args);
        case Kind::Loop:
            return loop_method(in, self, method, args);
        default:
            return sequence_method(in, self, method, args);
    }
}

}  // namespace sluice::tokens::jinja
