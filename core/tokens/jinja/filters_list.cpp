#include <algorithm>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/merge_sort.hpp"
#include "core/tokens/jinja/text.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

Value generator(ListData* items) {
    return Value::of(items, Kind::Generator);
}
Value copy_items(Interp& in, std::span<const Value> items, Kind kind) {
    in.charge(items.size() / 4);
    ListData* out = in.list(items.size());
    for (const Value& v : items) {
        in.push(*out, v);
    }
    return Value::of(out, kind);
}
Value ignore_case(Interp& in, const Value& v) {
    return v.is_string() ? in.text(to_case(v.str(), Case::Lower)) : v;
}

// Sorts stably; a comparison that Python refuses is a failure and ends up in any order.
void sort_items(Interp& in, std::vector<std::pair<Value, Value>>& keyed, bool is_reversed) {
    const auto before = [&](const auto& a, const auto& b) {
        if (in.failed()) {
            return false;
        }
        in.charge(1);
        return is_reversed ? in.less(b.first, a.first) : in.less(a.first, b.first);
    };
    merge_sort(keyed, before);
}

// The key of an item: itself or an attribute; with commas a list of several attributes.
Value sort_key(Interp& in, const Value& item, const Value* attribute, bool is_cased) {
    const auto post = [&](const Value& v) {
        return is_cased ? v : ignore_case(in, v);
    };
    if (attribute == nullptr || attribute->is_none()) {
        return post(item);
    }
    std::string_view names = in.str(*attribute);
    if (!attribute->is_string() || names.find(',') == std::string_view::npos) {
        return post(in.path(item, *attribute));
    }
    ListData* keys = in.list();
    for (;;) {
        const std::size_t comma = names.find(',');
        in.push(*keys, post(in.path(item, Value::of(names.substr(0, comma)))));
        if (comma == std::string_view::npos || in.failed()) {
            return Value::of(keys);
        }
        names.remove_prefix(comma + 1);
    }
}

Value fallback(Interp&, const Value& v, const Bound& args) {
    if (v.is_undefined() || (args.flag(1) && !truthy(v))) {
        return args.has(0) ? *args[0] : Value::of("");
    }
    return v;
}

Value length(Interp& in, const Value& v, const Bound&) {
    if (const auto n = in.length(v)) {
        in.charge(v.is_string() ? v.size / 256 : 0);
        return Value::of(*n);
    }
    return in.type_error("object of type '" + std::string(type_name(v)) + "' has no len()");
}

Value to_list(Interp& in, const Value& v, const Bound&) {
    return copy_items(in, in.items_of(v), Kind::List);
}

Value items(Interp& in, const Value& v, const Bound&) {
    if (v.is_undefined()) {
        return generator(in.list());
    }
    if (!v.is_dict()) {
        return in.type_error("Can only get item pairs from a mapping.");
    }
    return copy_items(in, in.items_of(Value::of(v.dict, Kind::DictItems)), Kind::Generator);
}

Value first(Interp& in, const Value& v, const Bound&) {
    if (v.is(Kind::Generator)) {
        return v.list->taken < v.list->size
                   ? v.list->items[v.list->taken++]
                   : Value::undefined("No first item, sequence was empty.");
    }
    const auto all = in.items_of(v);
    return all.empty() ? Value::undefined("No first item, sequence was empty.") : all.front();
}

Value last(Interp& in, const Value& v, const Bound&) {
    if (v.is(Kind::Generator)) {
        return in.type_error("'generator' object is not reversible");
    }
    const auto all = in.items_of(v);
    return all.empty() ? Value::undefined("No last item, sequence was empty.") : all.back();
}

Value join(Interp& in, const Value& v, const Bound& args) {
    const std::string_view between = args.has(0) ? in.str(*args[0]) : "";
    const bool is_by_attribute = args.has(1) && !args[1]->is_none();
    const auto all = in.items_of(v);
    in.charge(all.size());
    std::string out;
    for (std::size_t i = 0; i < all.size() && !in.failed(); ++i) {
        if (i > 0) {
            out += between;
        }
        out += in.str(is_by_attribute ? in.path(all[i], *args[1]) : all[i]);
        if (out.size() > in.max_text()) {
            return in.fail(Code::Limit, "a joined text is too large");
        }
    }
    return in.text(out);
}

Value dict_sort(Interp& in, const Value& v, const Bound& args) {
    if (!v.is_dict()) {
        return in.type_error("dictsort expects a mapping, not " + std::string(type_name(v)));
    }
    const std::string_view by = args.has(1) ? in.str(*args[1]) : "key";
    if (by != "key" && by != "value") {
        return in.type_error("You can only sort by either \"key\" or \"value\"");
    }
    std::vector<std::pair<Value, Value>> keyed;
    for (const DictEntry& e : v.dict->view()) {
        const Value& key = by == "key" ? e.key : e.value;
        keyed.emplace_back(args.flag(0) ? key : ignore_case(in, key), in.tuple({e.key, e.value}));
    }
    sort_items(in, keyed, args.flag(2));
    ListData* out = in.list(keyed.size());
    for (const auto& [key, pair] : keyed) {
        in.push(*out, pair);
    }
    return Value::of(out);
}

Value sort(Interp& in, const Value& v, const Bound& args) {
    std::vector<std::pair<Value, Value>> keyed;
    for (const Value& item : in.items_of(v)) {
        keyed.emplace_back(sort_key(in, item, args[2], args.flag(1)), item);
    }
    sort_items(in, keyed, args.flag(0));
    ListData* out = in.list(keyed.size());
    for (const auto& [key, item] : keyed) {
        in.push(*out, item);
    }
    return Value::of(out);
}

Value group_by(Interp& in, const Value& v, const Bound& args) {
    std::vector<std::pair<Value, Value>> keyed;
    for (const Value& item : in.items_of(v)) {
        Value key = in.path(item, *args[0]);
        key = key.is_undefined() && args.has(1) ? *args[1] : key;
        keyed.emplace_back(args.flag(2) ? key : ignore_case(in, key), item);
    }
    sort_items(in, keyed, false);
    ListData* out = in.list();
    ListData* group = nullptr;
    for (std::size_t i = 0; i < keyed.size(); ++i) {
        if (i == 0 || !equal(keyed[i].first, keyed[i - 1].first)) {
            group = in.list();
            Value name = in.path(keyed[i].second, *args[0]);
            name = name.is_undefined() && args.has(1) ? *args[1] : name;
            in.push(*out, in.tuple({name, Value::of(group)}));
        }
        in.push(*group, keyed[i].second);
    }
    return Value::of(out);
}

Value unique(Interp& in, const Value& v, const Bound& args) {
    ListData* out = in.list();
    DictData* seen = make_dict(in.arena(), 0);
    for (const Value& item : in.items_of(v)) {
        const Value key = sort_key(in, item, args[1], args.flag(0));
        if (!hashable(key)) {
            return in.type_error("unhashable type: '" + std::string(type_name(key)) + "'");
        }
        if (find(*seen, key) == nullptr) {
            put(in.arena(), *seen, key, Value::none());
            in.push(*out, item);
        }
        in.charge(1);
    }
    return generator(out);
}

Value reverse(Interp& in, const Value& v, const Bound&) {
    const auto all = in.items_of(v);
    if (v.is_string()) {
        std::string out;
        for (std::size_t i = all.size(); i > 0; --i) {
            out += all[i - 1].str();
        }
        return in.text_like(v, out, true);
    }
    in.charge(all.size() / 4);
    ListData* out = in.list(all.size());
    for (std::size_t i = all.size(); i > 0 && !in.failed(); --i) {
        in.push(*out, all[i - 1]);
    }
    return generator(out);
}

// min and max: the first of equals.
template <bool is_max>
Value extreme(Interp& in, const Value& v, const Bound& args) {
    const auto all = in.items_of(v);
    if (all.empty()) {
        return Value::undefined("No aggregated item, sequence was empty.");
    }
    std::size_t best = 0;
    Value best_key = sort_key(in, all[0], args[1], args.flag(0));
    for (std::size_t i = 1; i < all.size() && !in.failed(); ++i) {
        in.charge(1);
        const Value key = sort_key(in, all[i], args[1], args.flag(0));
        if (is_max ? in.less(best_key, key) : in.less(key, best_key)) {
            best = i;
            best_key = key;
        }
    }
    return all[best];
}

Value sum(Interp& in, const Value& v, const Bound& args) {
    const bool is_by_attribute = args.has(0) && !args[0]->is_none();
    Value total = args.has(1) ? *args[1] : Value::of(std::int64_t{0});
    for (const Value& item : in.items_of(v)) {
        in.charge(1);
        total = in.binary(Op::Add, total, is_by_attribute ? in.path(item, *args[0]) : item);
        if (in.failed()) {
            break;
        }
    }
    return total;
}

Value batch(Interp& in, const Value& v, const Bound& args) {
    const std::int64_t n = args[0]->is_int() ? args[0]->as_int() : 0;
    if (n <= 0 || n > 1'000'000) {
        return in.type_error("batch expects a count");
    }
    ListData* out = in.list();
    ListData* row = nullptr;
    for (const Value& item : in.items_of(v)) {
        if (row == nullptr || row->size == static_cast<std::uint64_t>(n)) {
            row = in.list();
            in.push(*out, Value::of(row));
        }
        in.push(*row, item);
        in.charge(1);
    }
    while (row != nullptr && args.has(1) && !args[1]->is_none() && !in.failed() &&
           row->size < static_cast<std::uint64_t>(n)) {
        in.push(*row, *args[1]);
        in.charge(1);
    }
    return generator(out);
}

Value attribute(Interp& in, const Value& v, const Bound& args) {
    const std::string_view name = in.str(*args[0]);
    const Method method = method_named(name);
    return v.is_dict() && method == Method::None ? Value::undefined(name, Kind::Dict)
                                                 : in.attribute(v, name, method);
}

// The arguments after the first `n` positional ones.
Args rest(const Args& args, std::size_t n) {
    return {args.positional.subspan(n), args.named};
}

Value map(Interp& in, const Value& v, const Bound& bound) {
    const Args& args = *bound.all;
    ListData* out = in.list();
    if (!truthy(v)) {
        return generator(out);
    }
    const Value* by = nullptr;
    const Value* otherwise = nullptr;
    if (args.positional.empty()) {
        for (const KeywordArg& named : args.named) {
            by = named.name == "attribute" ? &named.value : by;
            otherwise = named.name == "default" ? &named.value : otherwise;
        }
    }
    if (by == nullptr && args.positional.empty()) {
        return in.type_error("map requires a filter argument");
    }
    const std::string_view name = by == nullptr ? in.str(args.positional[0]) : "";
    const int function = by == nullptr ? filter_named(name) : -1;
    for (const Value& item : in.items_of(v)) {
        in.charge(1);
        Value mapped;
        if (by != nullptr) {
            mapped = in.path(item, *by);
            mapped = mapped.is_undefined() && otherwise != nullptr ? *otherwise : mapped;
        } else {
            mapped = in.filter(function, name, item, rest(args, 1));
        }
        if (in.failed()) {
            break;
        }
        in.push(*out, mapped);
    }
    return generator(out);
}

// select, reject, selectattr, rejectattr.
template <bool keeps, bool by_attribute>
Value choose(Interp& in, const Value& v, const Bound& bound) {
    const Args& args = *bound.all;
    constexpr std::size_t kOffset = by_attribute ? 1 : 0;
    ListData* out = in.list();
    if (!truthy(v)) {
        return generator(out);
    }
    if (args.positional.size() < kOffset) {
        return in.type_error("Missing parameter for attribute name");
    }
    const bool has_test = args.positional.size() > kOffset;
    const std::string_view name = has_test ? in.str(args.positional[kOffset]) : "";
    const int function = has_test ? test_named(name) : -1;
    for (const Value& item : in.items_of(v)) {
        in.charge(1);
        const Value subject = by_attribute ? in.path(item, args.positional[0]) : item;
        const bool is =
            has_test ? in.test(function, name, subject, rest(args, kOffset + 1)) : truthy(subject);
        if (in.failed()) {
            break;
        }
        if (is == keeps) {
            in.push(*out, item);
        }
    }
    return generator(out);
}

constexpr Filter kFilters[] = {
    {"length", length, {}, 0},
    {"count", length, {}, 0},
    {"default", fallback, {"default_value", "boolean"}, 0},
    {"d", fallback, {"default_value", "boolean"}, 0},
    {"list", to_list, {}, 0},
    {"items", items, {}, 0},
    {"first", first, {}, 0},
    {"last", last, {}, 0},
    {"join", join, {"d", "attribute"}, 0},
    {"map", map, {"*"}, 0},
    {"select", choose<true, false>, {"*"}, 0},
    {"reject", choose<false, false>, {"*"}, 0},
    {"selectattr", choose<true, true>, {"*"}, 0},
    {"rejectattr", choose<false, true>, {"*"}, 0},
    {"dictsort", dict_sort, {"case_sensitive", "by", "reverse"}, 0},
    {"sort", sort, {"reverse", "case_sensitive", "attribute"}, 0},
    {"groupby", group_by, {"attribute", "default", "case_sensitive"}, 1},
    {"unique", unique, {"case_sensitive", "attribute"}, 0},
    {"reverse", reverse, {}, 0},
    {"min", extreme<false>, {"case_sensitive", "attribute"}, 0},
    {"max", extreme<true>, {"case_sensitive", "attribute"}, 0},
    {"sum", sum, {"attribute", "start"}, 0},
    {"batch", batch, {"linecount", "fill_with"}, 1},
    {"attr", attribute, {"name"}, 1},
};

}  // namespace

std::span<const Filter> list_filters() {
    return kFilters;
}

}  // namespace sluice::tokens::jinja
