// Characters: UTF-8 in and out, and the classes that pre-tokenizers ask for.
//
// Threads: any; pure functions.
// Errors:  none. decode() wants valid UTF-8: encode() checks a text once, at the door.
// Source:  Unicode 16.0 (scripts/make-unicode-tables), as the reference's regex engine has it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tokens/unicode_tables.hpp"

namespace sluice::tokens::unicode {

// In the order of the generated table.
enum class Category : std::uint8_t {
    Lu,
    Ll,
    Lt,
    Lm,
    Lo,
    Mn,
    Mc,
    Me,
    Nd,
    Nl,
    No,
    Pc,
    Pd,
    Ps,
    Pe,
    Pi,
    Pf,
    Po,
    Sm,
    Sc,
    Sk,
    So,
    Zs,
    Zl,
    Zp,
    Cc,
    Cf,
    Cs,
    Co,
    Cn,
};

// A set of categories.
using Mask = std::uint32_t;
constexpr Mask mask(Category c) noexcept {
    return Mask{1} << static_cast<unsigned>(c);
}
template <class... Rest>
constexpr Mask mask(Category c, Rest... rest) noexcept {
    return mask(c) | mask(rest...);
}
inline constexpr Mask kMark = mask(Category::Mn, Category::Mc, Category::Me);
inline constexpr Mask kLetter =
    mask(Category::Lu, Category::Ll, Category::Lt, Category::Lm, Category::Lo);
inline constexpr Mask kNumber = mask(Category::Nd, Category::Nl, Category::No);
inline constexpr Mask kPunctuation = mask(Category::Pc, Category::Pd, Category::Ps, Category::Pe,
                                          Category::Pi, Category::Pf, Category::Po);
inline constexpr Mask kSymbol = mask(Category::Sm, Category::Sc, Category::Sk, Category::So);

// The class byte of a character: category and flags.
inline std::uint8_t class_of(char32_t c) noexcept {
    return kClass[kClassPage[c >> 8U]][c & 0xFFU];
}
inline bool is_in(std::uint8_t cls, Mask set) noexcept {
    return (set >> (cls & kCategoryBits) & 1U) != 0;
}
inline bool is_white(std::uint8_t cls) noexcept {
    return (cls & kWhiteBit) != 0;
}
inline bool is_word(std::uint8_t cls) noexcept {
    return (cls & kWordBit) != 0;
}

// Bytes of the character that starts with `lead`.
constexpr unsigned length_of(unsigned char lead) noexcept {
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}
constexpr bool is_continuation(char c) noexcept {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80;
}

struct Decoded {
    char32_t value;
    unsigned length;
};

// The character at `p` of valid UTF-8.
inline Decoded decode(const char* p) noexcept {
    const auto at = [p](unsigned i) {
        return static_cast<char32_t>(static_cast<unsigned char>(p[i]));
    };
    const char32_t lead = at(0);
    if (lead < 0x80) {
        return {lead, 1};
    }
    if (lead < 0xE0) {
        return {(lead & 0x1FU) << 6U | (at(1) & 0x3FU), 2};
    }
    if (lead < 0xF0) {
        return {(lead & 0x0FU) << 12U | (at(1) & 0x3FU) << 6U | (at(2) & 0x3FU), 3};
    }
    return {
        (lead & 0x07U) << 18U | (at(1) & 0x3FU) << 12U | (at(2) & 0x3FU) << 6U | (at(3) & 0x3FU),
        4};
}

// The character that ends right before `p`, which is not the beginning of the text.
inline Decoded decode_before(const char* p) noexcept {
    do {
        --p;
    } while (is_continuation(*p));
    return decode(p);
}

inline void append(char32_t c, std::string& out) {
    const auto put = [&out](char32_t v) {
        out.push_back(static_cast<char>(v));
    };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xC0U | c >> 6U);
        put(0x80U | (c & 0x3FU));
    } else if (c < 0x10000) {
        put(0xE0U | c >> 12U);
        put(0x80U | (c >> 6U & 0x3FU));
        put(0x80U | (c & 0x3FU));
    } else {
        put(0xF0U | c >> 18U);
        put(0x80U | (c >> 12U & 0x3FU));
        put(0x80U | (c >> 6U & 0x3FU));
        put(0x80U | (c & 0x3FU));
    }
}

inline std::size_t count_chars(std::string_view utf8) noexcept {
    std::size_t n = 0;
    for (const char c : utf8) {
        n += is_continuation(c) ? 0 : 1;
    }
    return n;
}

}  // namespace sluice::tokens::unicode
