// A Scanner out of a search for the next match: for literals and for patterns left to PCRE2.
//
// `Find` is called as find(text, from, end) and returns the next match that is not empty, or a span
// of end..end if there is none, or kFailed. A match may not depend on what is before `from`.
//
// Threads: any; immutable.
// Source:  crate tokenizers 0.22.2, tokenizer/normalizer.rs, NormalizedString::split.
#pragma once
#include <utility>

#include "core/tokens/scanner.hpp"

namespace sluice::tokens::scan {

template <class Find>
class Matches final : public Scanner {
public:
    Matches(Find find, Behavior behavior) : find_(std::move(find)), behavior_(behavior) {}

    std::size_t scan(const char* text, std::uint32_t& at, std::uint32_t end, Span* out,
                     std::size_t room) const override {
        std::size_t count = 0;
        while (at != end && count + 2 <= room) {
            const Span match = find_(text, at, end);
            if (match.begin == kFailed.begin) {
                return kScanFailed;
            }
            const bool has_gap = match.begin != at;
            const bool is_match = match.begin != end;
            switch (behavior_) {
                case Behavior::Isolated:
                    put(has_gap, {at, match.begin}, out, count);
                    put(is_match, match, out, count);
                    break;
                case Behavior::MatchesOnly:
                    put(is_match, match, out, count);
                    break;
                case Behavior::GapsOnly:
                    put(has_gap, {at, match.begin}, out, count);
                    break;
                case Behavior::MergedWithPrevious:
                    out[count++] = {at, match.end};
                    break;
            }
            at = match.end;
        }
        return count;
    }

    static constexpr Span kFailed{0xFFFFFFFF, 0xFFFFFFFF};

private:
    static void put(bool wanted, Span span, Span* out, std::size_t& count) noexcept {
        if (wanted) {
            out[count++] = span;
        }
    }

    Find find_;
    Behavior behavior_;
};

}  // namespace sluice::tokens::scan
