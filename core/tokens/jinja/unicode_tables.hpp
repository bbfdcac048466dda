// The tables behind unicode.hpp, sorted by code point.
//
// Threads: any.
// Source:  Unicode 14.0 as CPython 3.11 has it; see make_unicode_tables.py.
#pragma once
#include <cstdint>
#include <span>

namespace sluice::tokens::jinja {

struct CodeRange {
    std::uint32_t first;
    std::uint32_t last;
};
// Every `step`-th code point from first to last maps to itself plus delta.
struct CaseRun {
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t step;
    std::int32_t delta;
};
// One that maps to two or three; unused places are 0.
struct CaseSpecial {
    std::uint32_t code;
    std::uint32_t to[3];
};
struct CaseTable {
    std::span<const CaseRun> runs;
    std::span<const CaseSpecial> special;
};

extern const std::span<const CodeRange> kPrintableRanges;
extern const std::span<const CodeRange> kAlphaRanges;
extern const std::span<const CodeRange> kDecimalRanges;
extern const std::span<const CodeRange> kDigitRanges;
extern const std::span<const CodeRange> kNumericRanges;
extern const std::span<const CodeRange> kUpperRanges;
extern const std::span<const CodeRange> kLowerRanges;
extern const std::span<const CodeRange> kTitleRanges;
extern const std::span<const CodeRange> kCaseIgnorableRanges;
extern const CaseTable kUpperCase;
extern const CaseTable kLowerCase;
extern const CaseTable kTitleCase;

}  // namespace sluice::tokens::jinja
