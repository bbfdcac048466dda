// The three splits of DeepSeek V3 and R1, which follow each other:
//
//   \p{N}{1,3}
//   [U+4E00-U+9FA5 U+3040-U+309F U+30A0-U+30FF]+
//   [ASCII punctuation][A-Za-z]+ | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//   | ?[\p{P}\p{S}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
//
// The gap between two matches is a split.
//
// Threads: any; pure.
// Source:  the tokenizer.json of DeepSeek V3; tests/vectors/tokens/deepseek_v3.jsonl.
#pragma once
#include "core/tokens/scan_runs.hpp"

namespace sluice::tokens::scan {

template <std::size_t Digits>
struct Numbers {
    const char* operator()(const char* p, const char* end) const noexcept {
        const char* stop = skip_numbers(p, end, Digits);
        if (stop != p) {
            return stop;
        }
        while (p != end && skip_numbers(p, end, 1) == p) {
            p += unicode::length_of(static_cast<unsigned char>(*p));
        }
        return p;
    }
};

struct HanAndKana {
    const char* operator()(const char* p, const char* end) const noexcept {
        const bool wanted = is_inside(p);
        do {
            p += unicode::length_of(static_cast<unsigned char>(*p));
        } while (p != end && is_inside(p) == wanted);
        return p;
    }

private:
    static bool is_inside(const char* p) noexcept {
        if (static_cast<unsigned char>(*p) < 0xE3 || static_cast<unsigned char>(*p) > 0xE9) {
            return false;
        }
        const char32_t c = unicode::decode(p).value;
        return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
    }
};

struct DeepSeekWords {
    static constexpr std::array<bool, 256> kPrefix = word_prefixes(true);
    static constexpr bool kSplitsCase = false;

    const char* operator()(const char* p, const char* end) const noexcept {
        if (ascii_of(*p) == Ascii::Other && *p > ' ' && *p != '\x7F' && p + 1 != end &&
            ascii_of(p[1]) == Ascii::Letter) {
            return skip_ascii_letters(p + 1, end);
        }
        const Char c = char_at(p);
        if (unicode::is_in(c.cls, kWord)) {
            return skip_letters(p, end, kWord);
        }
        const bool is_symbol = unicode::is_in(c.cls, kSigns);
        if (!is_symbol && *p != '\r' && *p != '\n' && is_letter_at(p + c.length, end, kWord)) {
            return skip_letters(p + c.length, end, kWord);
        }
        if (is_symbol) {
            return skip_newlines(skip_signs(p, end), end);
        }
        if (*p == ' ') {
            if (const char* const stop = skip_signs(p + 1, end); stop != p + 1) {
                return skip_newlines(stop, end);
            }
        }
        if (unicode::is_white(c.cls)) {
            return skip_white(p, end);
        }
        return gap(p + c.length, end);
    }

private:
    static constexpr unicode::Mask kWord = unicode::kLetter | unicode::kMark;
    static constexpr unicode::Mask kSigns = unicode::kPunctuation | unicode::kSymbol;

    static const char* skip_signs(const char* p, const char* end) noexcept {
        while (p != end) {
            const Char c = char_at(p);
            if (!unicode::is_in(c.cls, kSigns)) {
                break;
            }
            p += c.length;
        }
        return p;
    }
    // The next place where anything matches.
    static const char* gap(const char* p, const char* end) noexcept {
        while (p != end) {
            const Char c = char_at(p);
            if (unicode::is_in(c.cls, kWord | kSigns) || unicode::is_white(c.cls) ||
                is_letter_at(p + c.length, end, kWord)) {
                break;
            }
            p += c.length;
        }
        return p;
    }
};

}  // namespace sluice::tokens::scan
