// Template source to tokens, with Jinja's white-space control already applied to the text between
// tags (trim_blocks, lstrip_blocks, "-" and "+").
//
// Threads: any.
// Errors:  Invalid with the line.
// Source:  Jinja2 3.1.6, lexer.py.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::tokens::jinja {

enum class Tok : std::uint8_t {
    Text,
    BlockBegin,
    BlockEnd,
    VarBegin,
    VarEnd,
    Name,
    String,
    Integer,
    Float,
    Op,  // text is the operator
    End,
};

struct Token {
    Tok kind = Tok::End;
    std::uint32_t line = 0;
    std::string_view text;  // a String is unescaped, a number without '_'
};

struct TokenStream {
    std::vector<Token> tokens;  // ends with Tok::End
};

// "\r\n" and "\r" become "\n"; one final newline is dropped.
std::string normalise_source(std::string_view source);
// The inside of a string literal with its escapes resolved; every backslash has a character after
// it. Empty for a malformed escape.
std::optional<std::string> unescape(std::string_view body);
// The views point into `source` and into `pool`, which must both outlive the tokens.
Result<TokenStream> tokenize(std::string_view source, std::deque<std::string>& pool);

}  // namespace sluice::tokens::jinja
