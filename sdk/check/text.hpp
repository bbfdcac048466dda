// Small tests on texts that come out of a plugin.
//
// Threads: any.
#pragma once
#include <sluice/sdk/base.h>

#include <string_view>

namespace sluice::check {

inline std::string_view view(sluice_str s) noexcept {
    return s.ptr == nullptr ? std::string_view() : std::string_view(s.ptr, s.len);
}
inline sluice_str borrow(std::string_view s) noexcept {
    return {s.data(), s.size()};
}

bool is_utf8(std::string_view text) noexcept;
bool is_one_line(std::string_view text) noexcept;
// "org.example.engine.foo": three or more words of lower-case letters, digits and hyphens.
bool is_reverse_dns(std::string_view id) noexcept;
// Semantic Versioning 2.0.0, clause 2 and on.
bool is_semver(std::string_view version) noexcept;
// The form of an SPDX license expression; identifiers themselves are not looked up.
bool is_spdx(std::string_view license) noexcept;

}  // namespace sluice::check
