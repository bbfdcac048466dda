// What a refused generation request means.
//
// The engine answers most failures inside a request with 400, its own among them, so a 400 proves
// nothing about the client: it is relayed as it is. So is the 502 or 504 of a proxy before the
// engine, which may have begun. A dropped connection never comes here.
//
// Threads: any.
// Errors:  none; what is not recognised is relayed.
// Source:  trtllm-serve 0.21 to 1.3, its error replies.
#pragma once
#include <cstdint>

namespace sluice::trtllm {

enum class ReplyMeaning {
    Relay,     // pass it on
    Busy,      // full: another endpoint may do, this one is not broken
    Elsewhere  // not healthy, or a proxy in front of it cannot reach it
};

constexpr ReplyMeaning meaning_of(std::uint32_t http_code) noexcept {
    switch (http_code) {
        case 429:
            return ReplyMeaning::Busy;
        case 503:
            return ReplyMeaning::Elsewhere;
        default:
            return ReplyMeaning::Relay;
    }
}

}  // namespace sluice::trtllm
