#include "plugins/trtllm/auth.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstdint>

namespace sluice::trtllm {

namespace {

constexpr char kHex[] = "0123456789abcdef";

void put_unit(std::string& to, std::uint32_t unit) {
    to += "\\u";
    for (unsigned shift = 16; shift != 0; shift -= 4) {
        to += kHex[unit >> (shift - 4) & 15U];
    }
}

// One code point at text[at]; `at` moves past it. UINT32_MAX: no UTF-8.
std::uint32_t code_point(std::string_view text, std::size_t& at) noexcept {
    const auto byte = [&](std::size_t i) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
    };
    const std::uint32_t first = byte(at);
    const std::size_t more = first < 0x80   ? 0
                             : first < 0xC2 ? 4
                             : first < 0xE0 ? 1
                             : first < 0xF0 ? 2
                             : first < 0xF5 ? 3
                                            : 4;
    if (more == 4 || text.size() - at <= more) {
        return UINT32_MAX;
    }
    std::uint32_t out = more == 0 ? first : first & (0x3FU >> more);
    for (std::size_t i = 1; i <= more; ++i) {
        if ((byte(at + i) & 0xC0U) != 0x80U) {
            return UINT32_MAX;
        }
        out = out << 6U | (byte(at + i) & 0x3FU);
    }
    constexpr std::array<std::uint32_t, 4> kLeast{0, 0x80, 0x800, 0x10000};
    if (out < kLeast[more] || out > 0x10FFFF || (out >= 0xD800 && out < 0xE000)) {
        return UINT32_MAX;
    }
    at += more + 1;
    return out;
}

bool put_text(std::string& to, std::string_view text) {
    constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    to += '"';
    for (std::size_t at = 0; at < text.size();) {
        const std::uint32_t code = code_point(text, at);
        if (code == UINT32_MAX) {
            return false;
        }
        const std::size_t known =
            code < 0x80 ? kShort.find(static_cast<char>(code)) : std::string_view::npos;
        if (known != std::string_view::npos) {
            to += '\\';
            to += kLetters[known];
        } else if (code >= ' ' && code <= '~') {
            to += static_cast<char>(code);
        } else if (code < 0x10000) {
            put_unit(to, code);
        } else {
            put_unit(to, 0xD800U + ((code - 0x10000U) >> 10U));
            put_unit(to, 0xDC00U + ((code - 0x10000U) & 0x3FFU));
        }
    }
    to += '"';
    return true;
}

bool put_member(std::string& to, std::string_view name, std::optional<std::string_view> value) {
    to += '"';
    to += name;
    to += "\":";
    if (!value) {
        to += "null";
        return true;
    }
    return put_text(to, *value);
}

}  // namespace

std::optional<std::string> signed_text(const Protected& fields) {
    std::string out = "{";
    if (!put_member(out, "ctx_info_endpoint", fields.ctx_info_endpoint)) {
        return std::nullopt;
    }
    out += ',';
    if (!put_member(out, "encoded_opaque_state", fields.encoded_opaque_state)) {
        return std::nullopt;
    }
    out += '}';
    return out;
}

std::optional<std::string> sign(std::string_view key, const Protected& fields) {
    const auto text = fields.any() ? signed_text(fields) : std::nullopt;
    std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
    unsigned size = 0;
    if (!text || key.size() > INT32_MAX ||
        HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text->data()), text->size(), mac.data(),
             &size) == nullptr) {
        return std::nullopt;
    }
    std::string out = "sha256=";
    for (unsigned i = 0; i < size; ++i) {
        out += kHex[mac[i] >> 4U];
        out += kHex[mac[i] & 15U];
    }
    return out;
}

}  // namespace sluice::trtllm
