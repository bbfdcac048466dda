// The generated tables behind unicode.hpp and nfc.hpp; nobody else reads them.
//
// Threads: any; constant data.
// Source:  scripts/make-unicode-tables says which Unicode versions and why two of them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace sluice::tokens::unicode {

inline constexpr std::size_t kPages = 0x1100;  // of 256 code points each

// Bits 0..4: general category (enum Category). Then three flags.
inline constexpr std::uint8_t kCategoryBits = 0x1F;
inline constexpr std::uint8_t kWhiteBit = 0x20;  // White_Space
inline constexpr std::uint8_t kHanBit = 0x40;    // script Han
inline constexpr std::uint8_t kWordBit = 0x80;   // \w: Alphabetic, M, Nd, Pc, Join_Control

extern const std::uint8_t kClassPage[kPages];
extern const std::uint8_t kClass[][256];

// What normalization must know of a character. Kind 0 is {0, 0}: most characters.
struct NfcKind {
    std::uint8_t combining_class;
    std::uint8_t is_uncertain;  // NFC_Quick_Check is No or Maybe
};
struct Composition {
    std::uint32_t first;
    std::uint32_t second;
    std::uint32_t composed;
};

extern const std::uint8_t kNfcPage[kPages];
extern const std::uint8_t kNfcKind[][256];
extern const NfcKind kNfcKinds[];

// Full canonical decompositions without Hangul: characters in order, then [begin[i], begin[i + 1]).
extern const std::uint32_t kDecomposed[];
extern const std::uint16_t kDecompositionBegin[];
extern const std::uint32_t kDecomposition[];
extern const std::size_t kDecomposedCount;

// Primary composites without Hangul, ordered by (first, second).
extern const Composition kCompositions[];
extern const std::size_t kCompositionCount;

}  // namespace sluice::tokens::unicode
