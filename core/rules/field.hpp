// The fields an operator may write, as data: name, type, range, default, and whether we have them.
//
// One table drives validation, the process defaults, the values in force and the list of what is
// known but not built. Nothing else in the program knows a field's range.
//
// Threads: any (static data).
// Source:  the management contract's rule fields and Sluice's additions to it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/rules/json_value.hpp"
#include "core/rules/refusal.hpp"

namespace sluice::rules {

enum class Type {
    Bool,
    Uint,
    Text,
    TextMap,  // object of text
    Object,   // members by a table of their own, or anything
    List,
};

enum class Standing {
    Built,     // has its effect
    Stored,    // accepted and read back; without effect here, which is said in a warning
    NotYet,    // only its default is accepted
    ReadOnly,  // part of a read-back; dropped when it is sent
};

struct Field {
    std::string_view name;
    Type type = Type::Text;
    Standing standing = Standing::Built;
    std::uint64_t min = 0;  // Uint: value; Text: bytes; TextMap and List: entries
    std::uint64_t max = 0;
    std::string_view one_of;    // Text: "a|b|c"; empty = any
    std::string_view built;     // the values we have, as one_of; empty = all
    std::string_view fallback;  // JSON text of the value in force where nobody says one
    std::string_view env;       // variable of the process default
    bool is_process = false;    // the configuration file's [rules] may set it
    bool is_required = false;
    bool zero_is_absent = false;  // 0 means "not given"
    int status = 422;             // of a value outside its range
    std::string_view code;        // of the same; empty = "out_of_range" or "unknown_value"
    std::span<const Field> members;
    bool is_immutable = false;    // a live rule keeps it
    bool is_hidden = false;       // its value is never shown
    std::string_view about = {};  // a sentence

    constexpr Field limits(std::uint64_t low, std::uint64_t high) const {
        Field f = *this;
        f.min = low;
        f.max = high;
        return f;
    }
    constexpr Field among(std::string_view values, std::string_view have = {}) const {
        Field f = *this;
        f.one_of = values;
        f.built = have;
        return f;
    }
    constexpr Field only(std::string_view have) const {
        Field f = *this;
        f.built = have;
        return f;
    }
    constexpr Field otherwise(std::string_view json) const {
        Field f = *this;
        f.fallback = json;
        return f;
    }
    constexpr Field process(std::string_view variable = {}) const {
        Field f = *this;
        f.is_process = true;
        f.env = variable;
        return f;
    }
    constexpr Field required() const {
        Field f = *this;
        f.is_required = true;
        return f;
    }
    constexpr Field zero_absent() const {
        Field f = *this;
        f.zero_is_absent = true;
        return f;
    }
    constexpr Field refused(int http, std::string_view with) const {
        Field f = *this;
        f.status = http;
        f.code = with;
        return f;
    }
    constexpr Field fixed() const {
        Field f = *this;
        f.is_immutable = true;
        return f;
    }
    constexpr Field hidden() const {
        Field f = *this;
        f.is_hidden = true;
        return f;
    }
    constexpr Field says(std::string_view sentence) const {
        Field f = *this;
        f.about = sentence;
        return f;
    }
    constexpr Field of(std::span<const Field> table) const {
        Field f = *this;
        f.members = table;
        return f;
    }
};

std::span<const Field> body_fields();      // serviceArguments, endpoints, ...
std::span<const Field> service_fields();   // serviceArguments
std::span<const Field> endpoint_fields();  // endpoints[]
std::span<const Field> source_fields();    // allowedSources[]

const Field* find_field(std::span<const Field> table, std::string_view name);

// 422 when the value is of another type.
std::optional<Refusal> check_type(const Field& field, const Json& value, const std::string& where);

// Type and range. `where` is the field as the operator finds it, e.g. "endpoints[1].targetPort".
std::optional<Refusal> check_value(const Field& field, const Json& value, const std::string& where);

// Every member of `object`: known, and check_value(); every required one there. Read-only members
// are taken out of `object`.
std::optional<Refusal> check_object(std::span<const Field> table, Json::Object& object,
                                    const std::string& prefix);

// Whether we have these values; asked after check_object() and the rules between fields, which have
// more to say.
std::optional<Refusal> check_supported(const Field& field, const Json& value,
                                       const std::string& where);
std::optional<Refusal> check_supported(std::span<const Field> table, const Json::Object& object,
                                       const std::string& prefix);

Refusal unknown_field(std::span<const Field> table, const std::string& where,
                      std::string_view name);

// What it is where nobody says anything: the built-in default, else 0, false, "", {} or [].
Json default_of(const Field& field);
// Whether both say the same; null is absent. For values that check_value() accepted.
bool is_same_value(const Field& field, const Json* a, const Json* b);

// The value for people: cut at a whole character, not shown when it is hidden.
std::string shown(const Field& field, const Json& value);

// "a|b|c" -> "a, b or c"; empty words at the ends are not shown.
std::string spoken(std::string_view list);

// What may be given, for people: "1..65535", "tcp", "a, b or c".
std::string allowed_text(const Field& field);

}  // namespace sluice::rules
