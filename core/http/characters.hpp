// Character classes of HTTP/1.1, and a fast look for bytes a field value may not hold.
// Private to core/http.
//
// Threads: any.
// Source:  RFC 9110 section 5.5 and 5.6.2.
#pragma once
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

// No control characters but TAB; bytes from 0x80 on are allowed (obs-text).
inline bool is_field_value(std::string_view value) noexcept {
    constexpr std::uint64_t ones = 0x0101010101010101U;
    constexpr std::uint64_t highs = 0x8080808080808080U;
    std::size_t i = 0;
    for (; i + 8 <= value.size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, value.data() + i, 8);
        const std::uint64_t del = word ^ (ones * 0x7F);
        // Exact for "some byte below 0x20" and "some byte is 0x7F"; which one does not matter here.
        const std::uint64_t below = (word - ones * 0x20) & ~word & highs;
        const std::uint64_t is_del = (del - ones) & ~del & highs;
        if ((below | is_del) != 0) {
            break;  // a TAB, or something bad: looked at byte by byte
        }
    }
    for (; i < value.size(); ++i) {
        const auto c = static_cast<std::uint8_t>(value[i]);
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
