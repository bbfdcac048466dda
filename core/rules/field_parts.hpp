// How a row of the field table is written.
//
// Threads: any (constant expressions).
#pragma once
#include "core/rules/field.hpp"

namespace sluice::rules {

inline constexpr std::uint64_t kU32 = 0xFFFFFFFF;
inline constexpr std::uint64_t kHourMs = 3'600'000;
inline constexpr std::uint64_t kDayMs = 86'400'000;
inline constexpr std::uint64_t kDaySec = 86'400;

constexpr Field flag(std::string_view name, Standing standing) {
    Field f;
    f.name = name;
    f.type = Type::Bool;
    f.standing = standing;
    f.fallback = "false";
    return f;
}
constexpr Field number(std::string_view name, Standing standing, std::uint64_t min,
                       std::uint64_t max) {
    Field f;
    f.name = name;
    f.type = Type::Uint;
    f.standing = standing;
    f.min = min;
    f.max = max;
    return f;
}
constexpr Field text(std::string_view name, Standing standing, std::uint64_t max_bytes = 256) {
    Field f;
    f.name = name;
    f.standing = standing;
    f.max = max_bytes;
    return f;
}
constexpr Field text_map(std::string_view name, Standing standing, std::uint64_t max_entries) {
    Field f = text(name, standing, max_entries);
    f.type = Type::TextMap;
    return f;
}
constexpr Field object(std::string_view name, Standing standing) {
    Field f = text(name, standing, 64);
    f.type = Type::Object;
    return f;
}
constexpr Field list(std::string_view name, Standing standing, std::uint64_t max_entries = 64) {
    Field f = text(name, standing, max_entries);
    f.type = Type::List;
    return f;
}
constexpr Field read_only(std::string_view name) {
    return text(name, Standing::ReadOnly);
}

// serviceArguments, a topic a file.
std::span<const Field> listener_fields();
std::span<const Field> traffic_fields();
std::span<const Field> pool_fields();
std::span<const Field> guard_fields();

}  // namespace sluice::rules
