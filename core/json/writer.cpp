#include "core/json/writer.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace sluice::json {

std::size_t sequence_bytes(std::string_view s) noexcept {
    const auto at = [&](std::size_t i) {
        return static_cast<unsigned char>(s[i]);
    };
    const auto is_tail = [&](std::size_t i) {
        return i < s.size() && (at(i) & 0xC0U) == 0x80U;
    };
    const unsigned lead = at(0);
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
        return is_tail(1) ? 2 : 0;
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (!is_tail(1) || !is_tail(2) || (lead == 0xE0 && at(1) < 0xA0) ||
            (lead == 0xED && at(1) > 0x9F)) {
            return 0;
        }
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (!is_tail(1) || !is_tail(2) || !is_tail(3) || (lead == 0xF0 && at(1) < 0x90) ||
            (lead == 0xF4 && at(1) > 0x8F)) {
            return 0;
        }
        return 4;
    }
    return 0;
}

void append_string(std::string& out, std::string_view text) {
    out += '"';
    std::size_t i = 0;
    while (i < text.size()) {
        const char c = text[i];
        const auto u = static_cast<unsigned char>(c);
        if (u >= 0x80) {
            const std::size_t n = sequence_bytes(text.substr(i));
            if (n == 0) {
                out += "\xEF\xBF\xBD";
                ++i;
            } else {
                out += text.substr(i, n);
                i += n;
            }
            continue;
        }
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (u < 0x20) {
            std::array<char, 8> hex{};
            std::snprintf(hex.data(), hex.size(), "\\u%04x", u);
            out += hex.data();
        } else {
            out += c;
        }
        ++i;
    }
    out += '"';
}

void Writer::value(double number) {
    if (!std::isfinite(number)) {
        null();
        return;
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6g", number);
    raw(text.data());
}

}  // namespace sluice::json
