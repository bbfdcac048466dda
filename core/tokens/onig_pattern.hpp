// Rewrites a pattern of the reference's regex engine (Oniguruma, Ruby syntax) for PCRE2.
//
// The engines differ in what classes mean: PCRE2's \s has U+180E, its \v is no single character,
// its tables are of another Unicode version. So every class is written out in ranges of our own
// tables, and what cannot be said the same way is refused. A match then depends on nothing before
// it.
//
// Threads: any; pure functions.
// Errors:  Code::Unsupported names the construct and where it is.
// Limits:  patterns up to kMaxPatternBytes.
// Source:  Oniguruma 6.9 doc/RE; PCRE2 10.42 pcre2pattern(3).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace sluice::tokens {

inline constexpr std::size_t kMaxPatternBytes = 4096;

Result<std::string> to_pcre2(std::string_view pattern);

}  // namespace sluice::tokens
