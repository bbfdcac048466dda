// Cuts a segment into the splits that BPE encodes alone.
//
// One Scanner stands for one `Split` of a tokenizer.json. The patterns in use are few and known, so
// each family is a hand-written pass over the bytes (scan_*.cpp); any other pattern goes to PCRE2
// (scan_regex.cpp), which is exact too, and slower.
//
// Threads: any; immutable.
// Errors:  make_* refuse a pattern by saying what of it is not understood. Only a pattern left to
//          PCRE2 can fail to scan, where it hits the match limit.
// Source:  the patterns are copied from the models' files. The reference's regex engine is
// Oniguruma:
//          alternatives in order, with backtracking; \s is White_Space; classes of Unicode 16.0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/result.hpp"

namespace sluice::tokens {

// [begin, end) in bytes from the start of the segment.
struct Span {
    std::uint32_t begin;
    std::uint32_t end;
};

inline constexpr std::size_t kScanFailed = static_cast<std::size_t>(-1);

class Scanner {
public:
    virtual ~Scanner() = default;

    // Cuts [at, end) of `text` and writes at most `room` splits; the piece ends at `end`,
    // look-ahead sees nothing after it. Sets `at` to where to go on. Returns the number written,
    // which can be less than `room` (at least 2) before the end, or kScanFailed.
    virtual std::size_t scan(const char* text, std::uint32_t& at, std::uint32_t end, Span* out,
                             std::size_t room) const = 0;
};

// What becomes of matches and of the gaps between them.
enum class Behavior {
    Isolated,            // both are splits
    MatchesOnly,         // "Removed" with invert: gaps are dropped
    GapsOnly,            // "Removed": matches are dropped
    MergedWithPrevious,  // a match is glued to the gap before it
};

// The hand-written scanner of a pattern; null if it is not one of the known ones.
std::unique_ptr<const Scanner> make_known_scanner(std::string_view pattern, Behavior behavior);
// The pattern ByteLevel stands for with use_regex.
std::unique_ptr<const Scanner> make_gpt2_scanner();
// Any other pattern.
Result<std::unique_ptr<const Scanner>> make_regex_scanner(std::string_view pattern,
                                                          Behavior behavior);
// A literal string as pattern.
std::unique_ptr<const Scanner> make_literal_scanner(std::string_view literal, Behavior behavior);
// Before each `mark` (one character), or only where the character before it is another.
std::unique_ptr<const Scanner> make_mark_scanner(std::string_view mark, bool splits_runs);

}  // namespace sluice::tokens
