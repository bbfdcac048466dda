// The little UTF-8 the simulated engines need.
//
// Threads: any.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::sim::utf8 {

// Whether `s` is well-formed UTF-8 (no surrogates, no overlong forms).
bool valid(std::string_view s) noexcept;
// Code points in `s`, which must be valid.
std::size_t count(std::string_view s) noexcept;
void append(std::string& out, unsigned code_point);
// The code point at `i` of valid text; advances `i` past it.
unsigned take(std::string_view s, std::size_t& i) noexcept;
// Length of the longest prefix of `s` that does not end inside a character.
std::size_t whole_prefix(std::string_view s) noexcept;

}  // namespace sluice::sim::utf8
