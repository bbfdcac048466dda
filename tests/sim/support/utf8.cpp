#include "tests/sim/support/utf8.hpp"

namespace sluice::sim::utf8 {
namespace {

// Bytes of the sequence that starts with `c`; 0 for one that cannot start any.
std::size_t sequence_bytes(unsigned char c) noexcept {
    if (c < 0x80) {
        return 1;
    }
    if (c >= 0xC2 && c < 0xE0) {
        return 2;
    }
    if (c >= 0xE0 && c < 0xF0) {
        return 3;
    }
    return c >= 0xF0 && c < 0xF5 ? 4 : 0;
}

bool continues(char c) noexcept {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

}  // namespace

unsigned take(std::string_view s, std::size_t& i) noexcept {
    const auto c = static_cast<unsigned char>(s[i]);
    const std::size_t n = sequence_bytes(c);
    if (n <= 1) {
        ++i;
        return c;
    }
    unsigned out = c & (0xFFU >> (n + 1));
    for (std::size_t k = 1; k < n; ++k) {
        out = out << 6U | (static_cast<unsigned char>(s[i + k]) & 0x3FU);
    }
    i += n;
    return out;
}

bool valid(std::string_view s) noexcept {
    for (std::size_t i = 0; i < s.size();) {
        const std::size_t n = sequence_bytes(static_cast<unsigned char>(s[i]));
        if (n == 0 || i + n > s.size()) {
            return false;
        }
        for (std::size_t k = 1; k < n; ++k) {
            if (!continues(s[i + k])) {
                return false;
            }
        }
        const unsigned c = take(s, i);
        if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10FFFF)) ||
            (c >= 0xD800 && c < 0xE000)) {
            return false;
        }
    }
    return true;
}

std::size_t count(std::string_view s) noexcept {
    std::size_t n = 0;
    for (const char c : s) {
        n += continues(c) ? 0 : 1;
    }
    return n;
}

void append(std::string& out, unsigned c) {
    const auto tail = [&out](unsigned bits) {
        out.push_back(static_cast<char>(0x80U | bits));
    };
    if (c < 0x80) {
        out.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
        out.push_back(static_cast<char>(0xC0U | c >> 6U));
        tail(c & 0x3FU);
    } else if (c < 0x10000) {
        out.push_back(static_cast<char>(0xE0U | c >> 12U));
        tail(c >> 6U & 0x3FU);
        tail(c & 0x3FU);
    } else {
        out.push_back(static_cast<char>(0xF0U | c >> 18U));
        tail(c >> 12U & 0x3FU);
        tail(c >> 6U & 0x3FU);
        tail(c & 0x3FU);
    }
}

std::size_t whole_prefix(std::string_view s) noexcept {
    for (std::size_t back = 1; back <= 4 && back <= s.size(); ++back) {
        const char c = s[s.size() - back];
        if (!continues(c)) {
            const std::size_t n = sequence_bytes(static_cast<unsigned char>(c));
            return n > back ? s.size() - back : s.size();
        }
    }
    return s.size();
}

}  // namespace sluice::sim::utf8
