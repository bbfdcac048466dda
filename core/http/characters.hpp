// Character classes of HTTP/1.1, and a fast look for bytes a field value may not hold.
// Private to core/http.
//
// Threads: any.
// Source:  RFC 9110 section 5.5 and 5.6.2.
#pragma once
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice::http {

constexpr std::array<bool, 256> make_token_table() noexcept {
    std::array<bool, 256> table{};
    for (char c = '0'; c <= '9'; ++c) {
        table[static_cast<std::uint8_t>(c)] = true;
    }
    for (char c = 'a'; c <= 'z'; ++c) {
        table[static_cast<std::uint8_t>(c)] = true;
        table[static_cast<std::uint8_t>(c - 'a' + 'A')] = true;
    }
    for (const char c : std::string_view("!#$%&'*+-.^_`|~")) {
        table[static_cast<std::uint8_t>(c)] = true;
    }
    return table;
}

inline constexpr std::array<bool, 256> kTokenTable = make_token_table();

constexpr bool is_token_char(char c) noexcept {
    return kTokenTable[static_cast<std::uint8_t>(c)];
}

inline std::uint64_t load_word(const char* from) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, from, 8);
    return word;
}

inline std::uint32_t load_half(const char* from) noexcept {
    std::uint32_t half = 0;
    std::memcpy(&half, from, 4);
    return half;
}

// Whether two words differ at most in the case of letters.
constexpr bool same_but_case(std::uint64_t a, std::uint64_t b) noexcept {
    constexpr std::uint64_t ones = 0x0101010101010101U;
    constexpr std::uint64_t highs = 0x8080808080808080U;
    const std::uint64_t differs = a ^ b;
    if ((differs & ~(ones * 0x20)) != 0) {
        return false;
    }
    // 0x80 in each byte whose lower case is 'a'..'z'; no carries, the top bits are out of the way.
    const std::uint64_t lower = (a | ones * 0x20) & ~highs;
    const std::uint64_t letters =
        (lower + ones * (0x80 - 'a')) & ~(lower + ones * (0x80 - 'z' - 1)) & ~a & highs;
    return (differs << 2U & ~letters) == 0;
}

// Some byte of the word may be below 0x20 or 0x7F; never misses one, may be wrong about a word.
constexpr bool may_hold_control(std::uint64_t word) noexcept {
    constexpr std::uint64_t ones = 0x0101010101010101U;
    constexpr std::uint64_t highs = 0x8080808080808080U;
    const std::uint64_t del = word ^ (ones * 0x7F);
    return ((((word - ones * 0x20) & ~word) | ((del - ones) & ~del)) & highs) != 0;
}

// No control characters but TAB; bytes from 0x80 on are allowed (obs-text).
inline bool is_field_value(std::string_view value) noexcept {
    const std::size_t size = value.size();
    bool doubtful = true;
#ifdef __SSE2__
    if (size >= 16) {
        const auto may_hold = [](const char* from) {
            const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
            const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
            const __m128i del = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7F));
            return _mm_movemask_epi8(_mm_or_si128(low, del)) != 0;
        };
        doubtful = may_hold(value.data() + size - 16);  // overlaps the last whole one
        for (std::size_t i = 0; i + 16 < size && !doubtful; i += 16) {
            doubtful = may_hold(value.data() + i);
        }
        if (!doubtful) {
            return true;
        }
    }
#endif
    if (size >= 8) {
        doubtful =
            may_hold_control(load_word(value.data() + size - 8));  // overlaps the last whole one
        for (std::size_t i = 0; i + 8 < size && !doubtful; i += 8) {
            doubtful = may_hold_control(load_word(value.data() + i));
        }
    }
    if (size >= 4 && size < 8) {
        doubtful = may_hold_control(load_half(value.data()) |
                                    std::uint64_t{load_half(value.data() + size - 4)} << 32U);
    }
    if (!doubtful) {
        return true;
    }
    for (const char raw : value) {
        const auto c = static_cast<std::uint8_t>(raw);
        if ((c < 0x20 && c != '\t') || c == 0x7F) {
            return false;
        }
    }
    return true;
}

constexpr std::string_view trim_blanks(std::string_view text) noexcept {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
        text.remove_prefix(1);
    }
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
        text.remove_suffix(1);
    }
    return text;
}

}  // namespace sluice::http
