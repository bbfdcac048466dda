// Runs of characters of one class: the inner loops of the scanners.
//
// ASCII is classified sixteen bytes at a time where the machine has SSE2, so the length of a word
// costs no branch; the rest goes by table.
//
// Threads: any; pure functions over valid UTF-8.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/tokens/unicode.hpp"

namespace sluice::tokens::scan {

// ASCII as the patterns see it.
enum class Ascii : std::uint8_t { Letter, Digit, Space, White, Newline, Other, NotAscii };

inline constexpr std::array<Ascii, 256> kAscii = [] {
    std::array<Ascii, 256> table{};
    for (unsigned c = 0; c < 256; ++c) {
        const unsigned lower = c | 0x20U;
        table[c] = c >= 0x80                             ? Ascii::NotAscii
                   : lower >= 'a' && lower <= 'z'        ? Ascii::Letter
                   : c >= '0' && c <= '9'                ? Ascii::Digit
                   : c == ' '                            ? Ascii::Space
                   : c == '\r' || c == '\n'              ? Ascii::Newline
                   : c == '\t' || c == '\v' || c == '\f' ? Ascii::White
                                                         : Ascii::Other;
    }
    return table;
}();

inline Ascii ascii_of(char c) noexcept {
    return kAscii[static_cast<unsigned char>(c)];
}

// [^\r\n\p{L}\p{N}] of ASCII; without the apostrophe where it may start a contraction.
constexpr std::array<bool, 256> word_prefixes(bool with_apostrophe) {
    std::array<bool, 256> table{};
    for (std::size_t c = 0; c < 256; ++c) {
        table[c] =
            (with_apostrophe || c != '\'') &&
            (kAscii[c] == Ascii::Space || kAscii[c] == Ascii::White || kAscii[c] == Ascii::Other);
    }
    return table;
}

// A character's class byte and length, from `p` before `end`.
struct Char {
    std::uint8_t cls;
    std::uint8_t length;
};
inline Char char_at(const char* p) noexcept {
    const unicode::Decoded c = unicode::decode(p);
    return {unicode::class_of(c.value), static_cast<std::uint8_t>(c.length)};
}

#if defined(__SSE2__)
// A bit for each of the 16 bytes at `p` that is no ASCII letter.
inline unsigned other_than_letters(const char* p) noexcept {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    const __m128i from_a = _mm_sub_epi8(lower, _mm_set1_epi8('a'));
    const __m128i is_letter = _mm_cmpeq_epi8(_mm_min_epu8(from_a, _mm_set1_epi8(25)), from_a);
    return static_cast<unsigned>(_mm_movemask_epi8(is_letter)) ^ 0xFFFFU;
}
#endif

// The end of the run of ASCII letters at `p`.
inline const char* skip_ascii_letters(const char* p, const char* end) noexcept {
#if defined(__SSE2__)
    while (end - p >= 16) {
        const unsigned others = other_than_letters(p);
        if (others != 0) {
            return p + std::countr_zero(others);
        }
        p += 16;
    }
#endif
    while (p != end && ascii_of(*p) == Ascii::Letter) {
        ++p;
    }
    return p;
}

// True for U+4E00..U+9FFF, which are all letters.
inline bool is_unified_ideograph(const char* p) noexcept {
    const auto lead = static_cast<unsigned char>(*p);
    return lead >= 0xE4 && lead <= 0xE9 &&
           (lead != 0xE4 || static_cast<unsigned char>(p[1]) >= 0xB8);
}

// As skip_letters, from where a letter over ASCII or a long word may be.
[[gnu::noinline]] inline const char* skip_letters_far(const char* p, const char* end,
                                                      unicode::Mask set) noexcept {
    for (;;) {
        p = skip_ascii_letters(p, end);
        while (p != end && is_unified_ideograph(p)) {
            p += 3;
        }
        if (p == end) {
            return p;
        }
        if (ascii_of(*p) == Ascii::NotAscii) {
            const Char c = char_at(p);
            if (!unicode::is_in(c.cls, set)) {
                return p;
            }
            p += c.length;
        } else if (ascii_of(*p) != Ascii::Letter) {
            return p;
        }
    }
}

// The end of the run at `p` of characters whose category is in `set`, which contains all letters.
inline const char* skip_letters(const char* p, const char* end, unicode::Mask set) noexcept {
#if defined(__SSE2__)
    if (end - p >= 16) {
        const unsigned others = other_than_letters(p);
        if (others != 0) {
            p += std::countr_zero(others);
            return static_cast<unsigned char>(*p) < 0x80 ? p : skip_letters_far(p, end, set);
        }
    }
#endif
    return skip_letters_far(p, end, set);
}

// True if a character in `set` (which contains all letters and nothing else of ASCII) is at `p`.
inline bool is_letter_at(const char* p, const char* end, unicode::Mask set) noexcept {
    if (p == end) {
        return false;
    }
    const Ascii kind = ascii_of(*p);
    return kind == Ascii::Letter ||
           (kind == Ascii::NotAscii && unicode::is_in(char_at(p).cls, set));
}

// The end of the run at `p` of characters outside `set` and not white space; of ASCII, `set` has
// letters and digits.
inline const char* skip_others(const char* p, const char* end, unicode::Mask set) noexcept {
    while (p != end) {
        const Ascii kind = ascii_of(*p);
        if (kind == Ascii::Other) {
            ++p;
        } else if (kind == Ascii::NotAscii) {
            const Char c = char_at(p);
            if (unicode::is_white(c.cls) || unicode::is_in(c.cls, set)) {
                return p;
            }
            p += c.length;
        } else {
            return p;
        }
    }
    return p;
}

// The end of at most `most` characters of category N at `p`.
inline const char* skip_numbers(const char* p, const char* end, std::size_t most) noexcept {
    for (; p != end && most != 0; --most) {
        const Ascii kind = ascii_of(*p);
        if (kind == Ascii::Digit) {
            ++p;
        } else if (kind == Ascii::NotAscii) {
            const Char c = char_at(p);
            if (!unicode::is_in(c.cls, unicode::kNumber)) {
                return p;
            }
            p += c.length;
        } else {
            return p;
        }
    }
    return p;
}

inline const char* skip_newlines(const char* p, const char* end) noexcept {
    while (p != end && (*p == '\n' || *p == '\r')) {
        ++p;
    }
    return p;
}

// `\s*[\r\n]+|\s+(?!\S)|\s+` at white space `p`: up to the last line end of the run if it has one;
// else all of it but the last character, which goes to what follows; else, at the end of the piece
// or if there is just one, all of it.
inline const char* skip_white(const char* p, const char* end) noexcept {
    const char* const begin = p;
    const char* last = p;  // where the last character of the run starts
    const char* after_newline = nullptr;
    while (p != end) {
        const Ascii kind = ascii_of(*p);
        if (kind == Ascii::Newline) {
            last = p;
            after_newline = ++p;
        } else if (kind == Ascii::Space || kind == Ascii::White) {
            last = p++;
        } else if (kind == Ascii::NotAscii) {
            const Char c = char_at(p);
            if (!unicode::is_white(c.cls)) {
                break;
            }
            last = p;
            p += c.length;
        } else {
            break;
        }
    }
    if (after_newline != nullptr) {
        return after_newline;
    }
    return p == end || last == begin ? p : last;
}

// The end of `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at an apostrophe `p`, or null. U+017F folds to s.
inline const char* skip_contraction(const char* p, const char* end) noexcept {
    if (end - p < 2) {
        return nullptr;
    }
    const auto lower = [](char c) {
        return static_cast<char>(c | 0x20);
    };
    const auto is_ascii_letter = [](char c) {
        return ascii_of(c) == Ascii::Letter;
    };
    if (end - p >= 3 && p[1] == '\xC5' && p[2] == '\xBF') {
        return p + 3;
    }
    if (!is_ascii_letter(p[1])) {
        return nullptr;
    }
    const char first = lower(p[1]);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
        return p + 2;
    }
    if (end - p >= 3 && is_ascii_letter(p[2])) {
        const char second = lower(p[2]);
        if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
            (first == 'l' && second == 'l')) {
            return p + 3;
        }
    }
    return nullptr;
}

}  // namespace sluice::tokens::scan
