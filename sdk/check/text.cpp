#include "sdk/check/text.hpp"

#include <algorithm>
#include <regex>
#include <string>

namespace sluice::check {
namespace {

bool matches(std::string_view text, const std::regex& pattern) {
    return text.size() <= 512 && std::regex_match(text.begin(), text.end(), pattern);
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const std::size_t n = lead < 0x80                   ? 1
                              : lead >= 0xC2 && lead < 0xE0 ? 2
                              : lead >= 0xE0 && lead < 0xF0 ? 3
                              : lead >= 0xF0 && lead < 0xF5 ? 4
                                                            : 0;
        if (n == 0 || i + n > text.size()) {
            return false;
        }
        for (std::size_t k = 1; k < n; ++k) {
            const auto next = static_cast<unsigned char>(text[i + k]);
            // Overlong forms, surrogates and what lies beyond U+10FFFF show in the second byte.
            const unsigned low = k == 1 && lead == 0xE0   ? 0xA0U
                                 : k == 1 && lead == 0xF0 ? 0x90U
                                                          : 0x80U;
            const unsigned high = k == 1 && lead == 0xED   ? 0x9FU
                                  : k == 1 && lead == 0xF4 ? 0x8FU
                                                           : 0xBFU;
            if (next < low || next > high) {
                return false;
            }
        }
        i += n;
    }
    return true;
}

bool is_one_line(std::string_view text) noexcept {
    return std::none_of(text.begin(), text.end(),
                        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

bool is_reverse_dns(std::string_view id) noexcept {
    static const std::regex pattern("[a-z][a-z0-9-]*(\\.[a-z0-9][a-z0-9-]*){2,}");
    return matches(id, pattern);
}

bool is_semver(std::string_view version) noexcept {
    static const std::regex pattern(
        "(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)"
        "(-[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*)?(\\+[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*)?");
    return matches(version, pattern);
}

bool is_spdx(std::string_view license) noexcept {
    static const std::regex pattern(
        "\\(*[A-Za-z0-9][A-Za-z0-9.:+-]*( (AND|OR|WITH) \\(*[A-Za-z0-9][A-Za-z0-9.:+-]*\\)*)*\\)*");
    return matches(license, pattern) && std::count(license.begin(), license.end(), '(') ==
                                            std::count(license.begin(), license.end(), ')');
}

}  // namespace sluice::check
