// What an engine adapter makes of a client's request for one leg: spans of the body, headers.
//
// What the adapter does not name stays byte for byte.
//
// Threads: one request's.
// Errors:  the adapter is told SLUICE_E_INVALID for spans outside the body, out of order or
//          overlapping and for headers that are none, SLUICE_E_LIMIT past the limits; is_good() is
//          false from then on.
// Limits:  kMaxHeaders headers of kMaxHeaderBytes; data of kMaxDataBytes in all.
// Source:  SDK, engine adapter (sluice_leg_out).
#pragma once
#include <sluice/sdk/engine.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/http/message.hpp"

namespace sluice::flow {

class LegEdits {
public:
    static constexpr std::size_t kMaxHeaders = 32;
    static constexpr std::size_t kMaxHeaderBytes = 8192;
    static constexpr std::size_t kMaxDataBytes = 64U << 20U;

    explicit LegEdits(std::string_view body) : body_(body) {}
    LegEdits(const LegEdits&) = delete;
    LegEdits& operator=(const LegEdits&) = delete;

    // For the adapter; valid while this object lives.
    sluice_leg_out out() noexcept;
    bool is_good() const noexcept { return is_good_; }

    // The body as it goes out, in pieces of the client's text and of the adapter's data. After the
    // adapter is done.
    std::span<const std::string_view> pieces();
    std::size_t size() const noexcept { return body_.size() - erased_ + data_.size(); }
    // An empty value removes the header.
    http::HeaderSpan headers();

private:
    struct Name {
        std::string name, value;
    };
    sluice_status edit(std::uint64_t at, std::uint64_t erase, std::string_view data);
    sluice_status set_header(std::string_view name, std::string_view value);
    sluice_status refuse(sluice_status why) noexcept;

    // Of the body, or of what the adapter gave.
    struct Part {
        bool is_data = false;
        std::size_t at = 0;
        std::size_t bytes = 0;
    };

    const std::string_view body_;
    std::string data_;
    std::vector<Part> parts_;
    std::vector<std::string_view> pieces_;
    std::vector<Name> names_;
    std::vector<http::Header> headers_;
    std::size_t done_ = 0;  // of the body
    std::size_t erased_ = 0;
    bool is_good_ = true;
    bool is_ended_ = false;
};

}  // namespace sluice::flow
