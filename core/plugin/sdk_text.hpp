// Between the SDK's strings, errors and statuses and ours.
//
// Threads: any.
#pragma once
#include <sluice/sdk/base.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace sluice::plugin {

inline std::string_view view(sluice_str s) noexcept {
    return s.ptr == nullptr ? std::string_view() : std::string_view(s.ptr, s.len);
}
inline sluice_str borrow(std::string_view s) noexcept {
    return {s.data(), s.size()};
}
inline std::string copy(sluice_str s, std::size_t max) {
    return std::string(view(s).substr(0, max));
}

// What the plugin wrote into an error; a length it may not write is not believed.
inline std::string_view text_of(const sluice_error& err) noexcept {
    return {err.msg, std::min<std::size_t>(err.len, sizeof err.msg)};
}

inline sluice_error empty_error() noexcept {
    sluice_error err{};
    err.size = sizeof(sluice_error);
    return err;
}

// Fills a caller's error, which may be null or of a shorter kind; returns the code.
inline sluice_status report(sluice_error* err, sluice_status code, std::string_view text) noexcept {
    if (err == nullptr || !SLUICE_HAS(sluice_error, err, msg)) {
        return code;
    }
    std::size_t n = std::min(text.size(), sizeof err->msg);
    while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0U) == 0x80U) {
        --n;
    }
    std::memcpy(err->msg, text.data(), n);
    err->len = static_cast<std::uint32_t>(n);
    err->code = code;
    return code;
}

// The code as text, for a plugin that gave no words.
std::string_view status_text(sluice_status status) noexcept;
// The plugin's words, or the code's.
std::string message(sluice_status status, const sluice_error& err);
// A status nobody understands is a failure.
sluice_status known_status(sluice_status status) noexcept;
Error to_error(sluice_status status, const sluice_error& err);

}  // namespace sluice::plugin
