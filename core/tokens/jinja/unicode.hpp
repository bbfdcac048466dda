// Python's view of text: white space, case, printability, code points of UTF-8.
//
// Input is UTF-8 that was validated before; malformed bytes are passed over one by one.
//
// Threads: any.
// Source:  CPython 3.11 (Unicode 14.0), whose str methods the templates call; the tables are made
//          by make_unicode_tables.py.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::tokens::jinja {

// Decodes at `at` and moves past it.
std::uint32_t next_code_point(std::string_view text, std::size_t& at);
// Where the code point that ends before `end` (> 0) starts.
std::size_t previous_code_point(std::string_view text, std::size_t end);
// False for a surrogate or a value beyond U+10FFFF: nothing is appended.
bool append_utf8(std::string& out, std::uint32_t code);

std::size_t count_code_points(std::string_view text);
// Byte offset of code point `index`; text.size() if there are not that many.
std::size_t code_point_offset(std::string_view text, std::size_t index);

// str.isspace, which str.strip and str.split go by.
bool is_space(std::uint32_t code);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
inline std::string_view strip(std::string_view text) {
    return strip_left(strip_right(text));
}
// Strips any of the code points in `chars`.
std::string_view strip_left(std::string_view text, std::string_view chars);
std::string_view strip_right(std::string_view text, std::string_view chars);

enum class Class { Printable, Alpha, Decimal, Digit, Numeric, Upper, Lower, Title };
bool is(Class c, std::uint32_t code);

enum class Case { Upper, Lower, Title };
// Appends the full mapping of one code point (`ß` in upper case is "SS").
void append_case(std::string& out, std::uint32_t code, Case to);
std::string to_case(std::string_view text, Case to);
// str.title: a letter after a cased letter is lower, others title case.
std::string to_title(std::string_view text);
// str.capitalize.
std::string capitalise(std::string_view text);

}  // namespace sluice::tokens::jinja
