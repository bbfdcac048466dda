#include "core/tokens/value.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace sluice::tokens {
namespace {

constexpr std::uint32_t kLinear = 12;  // dicts up to this size are searched in order
constexpr int kMaxDepth = 300;

std::uint32_t hash_text(std::string_view s) {
    // FNV-1a. Keys come from requests, so collisions can be made at will; what that costs is
    // bounded by the request's size and the step limit.
    std::uint32_t h = 2166136261U;
    for (const char c : s) {
        h = (h ^ static_cast<unsigned char>(c)) * 16777619U;
    }
    return h;
}

std::uint32_t hash(const Value& v, int depth = 0) {
    switch (v.kind) {
        case Kind::String:
        case Kind::BigInt:
        case Kind::Bytes:
            return hash_text(v.str());
        case Kind::Bool:
        case Kind::Int:
        case Kind::Float: {
            const double d = v.as_double();
            std::uint64_t bits = 0;
            const double positive = d == 0 ? 0.0 : d;
            std::memcpy(&bits, &positive, sizeof bits);
            return static_cast<std::uint32_t>(bits ^ (bits >> 29U));
        }
        case Kind::Tuple: {
            std::uint32_t h = 17;
            for (const Value& item : v.list->view()) {
                h = h * 31U + (depth < kMaxDepth ? hash(item, depth + 1) : 0);
            }
            return h;
        }
        default:
            return static_cast<std::uint32_t>(v.kind);
    }
}

bool index_dict(Arena& arena, DictData& dict) {
    std::uint32_t slots = 32;
    while (slots < dict.capacity * 2U) {
        slots *= 2;
    }
    dict.slots = arena.array<std::uint32_t>(slots);
    if (dict.slots == nullptr) {
        dict.slot_count = 0;
        return false;
    }
    dict.slot_count = slots;
    std::memset(dict.slots, 0, slots * sizeof(std::uint32_t));
    for (std::uint32_t i = 0; i < dict.size; ++i) {
        std::uint32_t at = hash(dict.entries[i].key) & (slots - 1);
        while (dict.slots[at] != 0) {
            at = (at + 1) & (slots - 1);
        }
        dict.slots[at] = i + 1;
    }
    return true;
}

template <class Same>
Value* probe(const DictData& dict, std::uint32_t h, Same same) {
    std::uint32_t at = h & (dict.slot_count - 1);
    while (dict.slots[at] != 0) {
        DictEntry& entry = dict.entries[dict.slots[at] - 1];
        if (same(entry.key)) {
            return &entry.value;
        }
        at = (at + 1) & (dict.slot_count - 1);
    }
    return nullptr;
}

bool add_entry(Arena& arena, DictData& dict, Value key, Value value) {
    if (dict.size == dict.capacity) {
        const std::uint32_t grown = std::max<std::uint32_t>(4, dict.capacity * 2);
        auto* entries = arena.array<DictEntry>(grown);
        if (entries == nullptr) {
            return false;
        }
        std::copy_n(dict.entries, dict.size, entries);
        dict.entries = entries;
        dict.capacity = grown;
        if (dict.slots != nullptr && !index_dict(arena, dict)) {
            return false;
        }
    }
    dict.entries[dict.size] = DictEntry{key, value};
    ++dict.size;
    if (dict.slots != nullptr) {
        std::uint32_t at = hash(key) & (dict.slot_count - 1);
        while (dict.slots[at] != 0) {
            at = (at + 1) & (dict.slot_count - 1);
        }
        dict.slots[at] = dict.size;
    } else if (dict.size > kLinear) {
        return index_dict(arena, dict);
    }
    return true;
}

bool equal_lists(std::span<const Value> a, std::span<const Value> b, int depth) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [depth](const Value& x, const Value& y) { return equal(x, y, depth + 1); });
}

}  // namespace

bool append(Arena& arena, ListData& list, Value v) {
    if (list.size == list.capacity) {
        const std::uint32_t grown = std::max<std::uint32_t>(4, list.capacity * 2);
        auto* items = arena.array<Value>(grown);
        if (items == nullptr) {
            return false;
        }
        std::copy_n(list.items, list.size, items);
        list.items = items;
        list.capacity = grown;
    }
    list.items[list.size++] = v;
    return true;
}

ListData* make_list(Arena& arena, std::size_t capacity) {
    auto* list = arena.make<ListData>();
    if (capacity > 0) {
        list->items = arena.array<Value>(capacity);
        list->capacity = list->items == nullptr ? 0 : static_cast<std::uint32_t>(capacity);
    }
    return list;
}

DictData* make_dict(Arena& arena, std::size_t capacity) {
    auto* dict = arena.make<DictData>();
    if (capacity > 0) {
        dict->entries = arena.array<DictEntry>(capacity);
        dict->capacity = dict->entries == nullptr ? 0 : static_cast<std::uint32_t>(capacity);
    }
    return dict;
}

Value* find(const DictData& dict, std::string_view key) {
    if (dict.slots != nullptr) {
        return probe(dict, hash_text(key),
                     [key](const Value& k) { return k.is_string() && k.str() == key; });
    }
    for (std::uint32_t i = 0; i < dict.size; ++i) {
        DictEntry& entry = dict.entries[i];
        if (entry.key.is_string() && entry.key.str() == key) {
            return &entry.value;
        }
    }
    return nullptr;
}

Value* find(const DictData& dict, const Value& key) {
    if (key.is_string()) {
        return find(dict, key.str());
    }
    if (dict.slots != nullptr) {
        return probe(dict, hash(key), [&key](const Value& k) { return equal(k, key); });
    }
    for (std::uint32_t i = 0; i < dict.size; ++i) {
        if (equal(dict.entries[i].key, key)) {
            return &dict.entries[i].value;
        }
    }
    return nullptr;
}

bool put(Arena& arena, DictData& dict, Value key, Value value) {
    if (Value* old = find(dict, key)) {
        *old = value;
        return true;
    }
    return add_entry(arena, dict, key, value);
}

bool put(Arena& arena, DictData& dict, std::string_view key, Value value) {
    return put(arena, dict, Value::of(key), value);
}

bool truthy(const Value& v) {
    switch (v.kind) {
        case Kind::Undefined:
        case Kind::None:
            return false;
        case Kind::Bool:
            return v.boolean;
        case Kind::Int:
            return v.integer != 0;
        case Kind::Float:
            return v.number != 0;
        case Kind::String:
        case Kind::Bytes:
            return v.size != 0;
        case Kind::List:
        case Kind::Tuple:
            return v.list->size != 0;
        case Kind::Dict:
        case Kind::DictKeys:
        case Kind::DictValues:
        case Kind::DictItems:
            return v.dict->size != 0;
        case Kind::Range:
            return v.range->count != 0;
        default:
            return true;
    }
}

bool equal(const Value& a, const Value& b, int depth) {
    if (depth > kMaxDepth) {
        return false;
    }
    if (a.is_number() && b.is_number()) {
        return a.is_int() && b.is_int() ? a.as_int() == b.as_int() : a.as_double() == b.as_double();
    }
    if (a.kind != b.kind) {
        return false;
    }
    switch (a.kind) {
        case Kind::Undefined:
        case Kind::None:
            return true;
        case Kind::BigInt:
        case Kind::String:
        case Kind::Bytes:
            return a.str() == b.str();
        case Kind::List:
        case Kind::Tuple:
            return equal_lists(a.list->view(), b.list->view(), depth);
        case Kind::Dict:
            if (a.dict->size != b.dict->size) {
                return false;
            }
            return std::ranges::all_of(a.dict->view(), [&](const DictEntry& e) {
                const Value* other = find(*b.dict, e.key);
                return other != nullptr && equal(e.value, *other, depth + 1);
            });
        case Kind::Range:
            return a.range->count == b.range->count &&
                   (a.range->count == 0 ||
                    (a.range->start == b.range->start &&
                     (a.range->count == 1 || a.range->step == b.range->step)));
        case Kind::Function:
            return a.integer == b.integer;
        default:
            return a.text == b.text;  // identity
    }
}

std::string_view type_name(const Value& v) {
    switch (v.kind) {
        case Kind::Undefined:
            return "Undefined";
        case Kind::None:
            return "NoneType";
        case Kind::Bool:
            return "bool";
        case Kind::Int:
        case Kind::BigInt:
            return "int";
        case Kind::Float:
            return "float";
        case Kind::String:
            return v.flag != 0 ? "Markup" : "str";
        case Kind::Bytes:
            return "bytes";
        case Kind::List:
            return "list";
        case Kind::Tuple:
            return "tuple";
        case Kind::Dict:
            return "dict";
        case Kind::DictKeys:
            return "dict_keys";
        case Kind::DictValues:
            return "dict_values";
        case Kind::DictItems:
            return "dict_items";
        case Kind::Range:
            return "range";
        case Kind::Generator:
            return "generator";
        case Kind::Namespace:
            return "Namespace";
        case Kind::Loop:
            return "LoopContext";
        case Kind::Macro:
            return "Macro";
        case Kind::Method:
            return "builtin_function_or_method";
        case Kind::Function:
            return "function";
    }
    return "object";
}

bool hashable(const Value& v, int depth) {
    switch (v.kind) {
        case Kind::List:
        case Kind::Dict:
        case Kind::DictItems:
        case Kind::DictKeys:
            return false;
        case Kind::Tuple:
            return depth < kMaxDepth &&
                   std::ranges::all_of(
                       v.list->view(),
                       [depth](const Value& item) { return hashable(item, depth + 1); });
        default:
            return true;
    }
}

Value copy_text(Arena& arena, std::string_view text) {
    char* at = arena.text(text.size());
    if (at == nullptr) {
        return Value::of(std::string_view());
    }
    std::memcpy(at, text.data(), text.size());
    return Value::of(std::string_view(at, text.size()));
}

}  // namespace sluice::tokens
