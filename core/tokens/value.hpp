// A value of a chat template: what JSON holds, what Python adds, and the callables of Jinja.
//
// Values are 16 bytes, copied freely; texts, lists and dicts live in an Arena (or in the compiled
// template) and never change once another value can see them. The exceptions are Namespace, Loop
// and Generator, which are state by design.
//
// Threads: a value belongs to the thread of its arena.
// Units:   text is UTF-8; sizes are bytes. BigInt is an integer beyond 64 bits as decimal text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/tokens/jinja/arena.hpp"

namespace sluice::tokens {

enum class Kind : std::uint8_t {
    Undefined,  // text: the name; flag: Kind of the object that lacks it, if it was an attribute
    None,
    Bool,
    Int,
    BigInt,
    Float,
    String,  // flag: is markup
    Bytes,
    List,
    Tuple,
    Dict,
    DictKeys,
    DictValues,
    DictItems,
    Range,
    Generator,  // what map, select and their kin give: iterated once, no length
    Namespace,
    Loop,
    Macro,
    Method,    // a method bound to its object
    Function,  // a global of the environment
};

struct ListData;
struct DictData;
struct RangeData;
struct LoopData;
struct MacroData;
struct MethodData;

struct Value {
    Kind kind = Kind::Undefined;
    std::uint8_t flag = 0;
    std::uint32_t size = 0;  // of text
    union {
        bool boolean;
        std::int64_t integer;
        double number;
        const char* text = nullptr;
        ListData* list;
        DictData* dict;
        RangeData* range;
        LoopData* loop;
        MacroData* macro;
        MethodData* method;
    };

    static Value none() { return of(Kind::None); }
    static Value of(bool v) {
        Value r = of(Kind::Bool);
        r.boolean = v;
        return r;
    }
    static Value of(std::int64_t v) {
        Value r = of(Kind::Int);
        r.integer = v;
        return r;
    }
    static Value of(std::size_t v) { return of(static_cast<std::int64_t>(v)); }
    static Value of(double v) {
        Value r = of(Kind::Float);
        r.number = v;
        return r;
    }
    // `v` must outlive the value: text of the arena, the template or the request.
    static Value of(std::string_view v, Kind kind = Kind::String) {
        Value r = of(kind);
        r.text = v.data();
        r.size = static_cast<std::uint32_t>(v.size());
        return r;
    }
    static Value of(const char* v) { return of(std::string_view(v)); }
    static Value of(ListData* v, Kind kind = Kind::List) {
        Value r = of(kind);
        r.list = v;
        return r;
    }
    static Value of(DictData* v, Kind kind = Kind::Dict) {
        Value r = of(kind);
        r.dict = v;
        return r;
    }
    static Value of(Kind k) {
        Value r;
        r.kind = k;
        return r;
    }
    static Value undefined(std::string_view name, Kind owner = Kind::Undefined) {
        Value r = of(name, Kind::Undefined);
        r.flag = static_cast<std::uint8_t>(owner);
        return r;
    }

    bool is(Kind k) const noexcept { return kind == k; }
    std::string_view str() const noexcept { return {text, size}; }
    bool is_string() const noexcept { return kind == Kind::String; }
    bool is_markup() const noexcept { return kind == Kind::String && flag != 0; }
    bool is_undefined() const noexcept { return kind == Kind::Undefined; }
    bool is_none() const noexcept { return kind == Kind::None; }
    bool is_dict() const noexcept { return kind == Kind::Dict; }
    // A bool counts as an integer, as in Python.
    bool is_int() const noexcept { return kind == Kind::Int || kind == Kind::Bool; }
    bool is_number() const noexcept { return is_int() || kind == Kind::Float; }
    std::int64_t as_int() const noexcept { return kind == Kind::Bool ? boolean : integer; }
    double as_double() const noexcept {
        return kind == Kind::Float ? number : static_cast<double>(as_int());
    }
    // List, Tuple or Generator: all hold a ListData.
    bool has_list() const noexcept {
        return kind == Kind::List || kind == Kind::Tuple || kind == Kind::Generator;
    }
};
static_assert(sizeof(Value) == 16);

struct ListData {
    Value* items = nullptr;
    std::uint32_t size = 0;
    std::uint32_t capacity = 0;
    std::uint32_t taken = 0;  // Generator: items already iterated

    std::span<const Value> view() const noexcept { return {items, size}; }
};

struct DictEntry {
    Value key;
    Value value;
};

struct DictData {
    DictEntry* entries = nullptr;
    std::uint32_t size = 0;
    std::uint32_t capacity = 0;
    std::uint32_t* slots = nullptr;  // hash index of larger dicts: entry number + 1, 0 is free
    std::uint32_t slot_count = 0;    // a power of two

    std::span<const DictEntry> view() const noexcept { return {entries, size}; }
};

struct RangeData {
    std::int64_t start = 0;
    std::int64_t step = 1;
    std::int64_t count = 0;
};

// Appends; false when the arena is spent.
bool append(Arena& arena, ListData& list, Value v);
ListData* make_list(Arena& arena, std::size_t capacity);
DictData* make_dict(Arena& arena, std::size_t capacity);

// nullptr if absent. Keys compare as in Python: 1, 1.0 and True are one key.
Value* find(const DictData& dict, const Value& key);
Value* find(const DictData& dict, std::string_view key);
// Sets or replaces (a replaced key keeps its place); false when the arena is spent.
bool put(Arena& arena, DictData& dict, Value key, Value value);
bool put(Arena& arena, DictData& dict, std::string_view key, Value value);

bool truthy(const Value& v);
// Structural equality as Python's ==. `depth` bounds nesting; past it values count as unequal.
bool equal(const Value& a, const Value& b, int depth = 0);
// Python's type name, as error texts say it: "str", "NoneType", "dict".
std::string_view type_name(const Value& v);
// Whether a dict may have it as a key.
bool hashable(const Value& v, int depth = 0);

Value copy_text(Arena& arena, std::string_view text);

}  // namespace sluice::tokens
