// The split of Qwen 2, 2.5 and 3, of Llama 3 (cl100k) and of Qwen 3.5, in one pass:
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,Digits}
//   | ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
//
// WithMarks: \p{L}+ is [\p{L}\p{M}]+ (the prefix's class is as above), and symbols exclude \p{M}.
//
// Threads: any; pure.
// Source:  the tokenizer.json of Qwen3 and Llama 3; tests/vectors/tokens/{qwen3,llama3_1}.jsonl.
#pragma once
#include <array>

#include "core/tokens/scan_runs.hpp"

namespace sluice::tokens::scan {

template <std::size_t Digits, bool WithMarks>
struct Cl100k {
    static constexpr unicode::Mask kLetters =
        WithMarks ? unicode::kLetter | unicode::kMark : unicode::kLetter;

    static constexpr std::array<bool, 256> kPrefix = word_prefixes(false);
    static constexpr bool kSplitsCase = false;

    const char* operator()(const char* p, const char* end) const noexcept {
        switch (ascii_of(*p)) {
            case Ascii::Letter:
                return skip_letters(p, end, kLetters);
            case Ascii::Digit:
                return skip_numbers(p, end, Digits);
            case Ascii::Space:
                if (is_letter_at(p + 1, end, kLetters)) {
                    return skip_letters(p + 1, end, kLetters);
                }
                return symbols_after_space(p, end);
            case Ascii::White:
                if (is_letter_at(p + 1, end, kLetters)) {
                    return skip_letters(p + 1, end, kLetters);
                }
                return skip_white(p, end);
            case Ascii::Newline:
                return skip_white(p, end);
            case Ascii::Other:
                if (*p == '\'') {
                    if (const char* const stop = skip_contraction(p, end); stop != nullptr) {
                        return stop;
                    }
                }
                if (is_letter_at(p + 1, end, kLetters)) {
                    return skip_letters(p + 1, end, kLetters);
                }
                return symbols(p, end);
            case Ascii::NotAscii:
                break;
        }
        const Char c = char_at(p);
        if (unicode::is_in(c.cls, kLetters)) {
            return skip_letters(p, end, kLetters);
        }
        if (unicode::is_in(c.cls, unicode::kNumber)) {
            return skip_numbers(p, end, Digits);
        }
        if (is_letter_at(p + c.length, end, kLetters)) {
            return skip_letters(p + c.length, end, kLetters);
        }
        return unicode::is_white(c.cls) ? skip_white(p, end) : symbols(p, end);
    }

private:
    static const char* symbols(const char* p, const char* end) noexcept {
        return skip_newlines(skip_others(p, end, kLetters | unicode::kNumber), end);
    }
    static const char* symbols_after_space(const char* p, const char* end) noexcept {
        const char* const stop = skip_others(p + 1, end, kLetters | unicode::kNumber);
        return stop != p + 1 ? skip_newlines(stop, end) : skip_white(p, end);
    }
};

}  // namespace sluice::tokens::scan
