// Values as Python prints them: str() and repr().
//
// Threads: any.
// Errors:  false for generators, methods and functions, which Python prints with an address.
// Limits:  the caller's `max_bytes` for the whole of `out`; past it, or past nesting 300, false.
// Source:  CPython 3.11; tests/vectors/chat/jinja-features.jsonl.
#pragma once
#include <cstddef>
#include <string>

#include "core/tokens/value.hpp"

namespace sluice::tokens::jinja {

// Undefined prints as nothing.
bool append_str(std::string& out, const Value& v, std::size_t max_bytes);
bool append_repr(std::string& out, const Value& v, std::size_t max_bytes, int depth = 0);
// Shortest text that reads back as the same number: 1.0, 1e+16, 1e-07, nan, inf.
void append_float(std::string& out, double v);
void append_int(std::string& out, std::int64_t v);

}  // namespace sluice::tokens::jinja
