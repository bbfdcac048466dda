// Text operations that filters and methods share.
//
// Threads: one interpreter, one thread.
// Source:  CPython 3.11, str.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/tokens/jinja/interp.hpp"

namespace sluice::tokens::jinja {

enum class Pad { Left, Right, Both };

// HTML-escapes what is no markup; the result is markup.
Value escape(Interp& in, const Value& v);
// "'x' is undefined", or what object lacks the attribute.
std::string describe_undefined(const Value& v);

// A negative count replaces all.
Value replace_text(Interp& in, const Value& text, std::string_view from, std::string_view to,
                   std::int64_t count);
// To `width` code points; Left puts the filling on the left.
Value pad_text(Interp& in, const Value& text, std::int64_t width, std::string_view fill, Pad side);
// str.splitlines: "\n", "\r\n", "\r", and Python's other line ends.
std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends);

// int(text, base) and float(text): surrounding white space, '_' between digits. False if it is no
// number, or beyond 64 bits.
bool parse_integer(std::string_view text, std::int64_t base, std::int64_t& out);
bool parse_double(std::string_view text, double& out);

}  // namespace sluice::tokens::jinja
