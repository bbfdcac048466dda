// The split of gpt-oss, gpt-4o and Llama 4 (o200k), and of Mistral's Tekken, in one pass:
//
//   [^\r\n\p{L}\p{N}]? U* L+ C? | [^\r\n\p{L}\p{N}]? U+ L* C? | \p{N}{1,Digits}
//   | ?[^\s\p{L}\p{N}]+[\r\n/]* | \s*[\r\n]+ | \s+(?!\S) | \s+
//
// with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L = [\p{Ll}\p{Lm}\p{Lo}\p{M}] and, where
// WithContractions, C = (?i:'s|'t|'re|'ve|'m|'ll|'d).
//
// Threads: any; pure.
// Source:  the tokenizer.json of gpt-oss; tests/vectors/tokens/gptoss.jsonl.
#pragma once
#include "core/tokens/scan_runs.hpp"

namespace sluice::tokens::scan {

template <std::size_t Digits, bool WithContractions>
struct O200k {
    static constexpr std::array<bool, 256> kPrefix = word_prefixes(true);
    static constexpr bool kSplitsCase = true;

    const char* operator()(const char* p, const char* end) const noexcept {
        switch (ascii_of(*p)) {
            case Ascii::Letter:
                return contraction(word(p, end), end);
            case Ascii::Digit:
                return skip_numbers(p, end, Digits);
            case Ascii::Newline:
                return skip_white(p, end);
            case Ascii::Space:
                if (is_letter_at(p + 1, end, kAny)) {
                    return contraction(word(p + 1, end), end);
                }
                return symbols_after_space(p, end);
            case Ascii::White:
                if (is_letter_at(p + 1, end, kAny)) {
                    return contraction(word(p + 1, end), end);
                }
                return skip_white(p, end);
            case Ascii::Other:
                if (is_letter_at(p + 1, end, kAny)) {
                    return contraction(word(p + 1, end), end);
                }
                return symbols(p, end);
            case Ascii::NotAscii:
                break;
        }
        const Char c = char_at(p);
        if (unicode::is_in(c.cls, unicode::kLetter)) {
            return contraction(word(p, end), end);
        }
        if (unicode::is_in(c.cls, unicode::kMark)) {
            // A mark can be the prefix, if a word that has an L follows; else it is the word.
            const char* const q = p + c.length;
            const char* const stop = is_letter_at(q, end, kAny) ? lower_word(q, end) : nullptr;
            return contraction(stop != nullptr ? stop : word(p, end), end);
        }
        if (unicode::is_in(c.cls, unicode::kNumber)) {
            return skip_numbers(p, end, Digits);
        }
        if (is_letter_at(p + c.length, end, kAny)) {
            return contraction(word(p + c.length, end), end);
        }
        return unicode::is_white(c.cls) ? skip_white(p, end) : symbols(p, end);
    }

private:
    using Category = unicode::Category;
    static constexpr unicode::Mask kBoth =
        unicode::mask(Category::Lm, Category::Lo) | unicode::kMark;
    static constexpr unicode::Mask kUpper = unicode::mask(Category::Lu, Category::Lt) | kBoth;
    static constexpr unicode::Mask kLower = unicode::mask(Category::Ll) | kBoth;
    static constexpr unicode::Mask kAny = kUpper | kLower;

    static bool is_ascii_lower(char c) noexcept { return c >= 'a' && c <= 'z'; }

    static const char* skip_lower(const char* p, const char* end) noexcept {
        while (p != end) {
            if (is_ascii_lower(*p)) {
                ++p;
            } else if (ascii_of(*p) == Ascii::NotAscii) {
                const Char c = char_at(p);
                if (!unicode::is_in(c.cls, kLower)) {
                    break;
                }
                p += c.length;
            } else {
                break;
            }
        }
        return p;
    }

    // The end of U*L+ at `p`, or null. Where no Ll follows the run of U, U* gives back until what
    // it gave back last is in L too: the match ends after the last such character.
    static const char* lower_word(const char* p, const char* end) noexcept {
        const char* last_both = nullptr;
        while (p != end) {
            if (*p >= 'A' && *p <= 'Z') {
                ++p;
            } else if (ascii_of(*p) == Ascii::NotAscii) {
                const Char c = char_at(p);
                if (!unicode::is_in(c.cls, kUpper)) {
                    break;
                }
                p += c.length;
                if (unicode::is_in(c.cls, kBoth)) {
                    last_both = p;
                }
            } else {
                break;
            }
        }
        const char* const stop = skip_lower(p, end);
        return stop != p ? stop : last_both;
    }

    // The end of U*L+ or else of U+L* at `p`, where a letter or mark is.
    static const char* word(const char* p, const char* end) noexcept {
        const char* const stop = lower_word(p, end);
        if (stop != nullptr) {
            return stop;
        }
        // No L in it, and none after it: Lu and Lt only.
        while (p != end) {
            if (*p >= 'A' && *p <= 'Z') {
                ++p;
            } else if (ascii_of(*p) == Ascii::NotAscii) {
                const Char c = char_at(p);
                if (!unicode::is_in(c.cls, kUpper)) {
                    break;
                }
                p += c.length;
            } else {
                break;
            }
        }
        return p;
    }

    static const char* contraction(const char* p, const char* end) noexcept {
        if constexpr (WithContractions) {
            if (p != end && *p == '\'') {
                if (const char* const stop = skip_contraction(p, end); stop != nullptr) {
                    return stop;
                }
            }
        }
        return p;
    }

    static const char* tail(const char* p, const char* end) noexcept {
        while (p != end && (*p == '\n' || *p == '\r' || *p == '/')) {
            ++p;
        }
        return p;
    }
    static const char* symbols(const char* p, const char* end) noexcept {
        return tail(skip_others(p, end, unicode::kLetter | unicode::kNumber), end);
    }
    static const char* symbols_after_space(const char* p, const char* end) noexcept {
        const char* const stop = skip_others(p + 1, end, unicode::kLetter | unicode::kNumber);
        return stop != p + 1 ? tail(stop, end) : skip_white(p, end);
    }
};

}  // namespace sluice::tokens::scan
