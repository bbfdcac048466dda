// Which pair of endpoints a conversation had last: the first tier of a P/D rule.
//
// A session is known by its conversation id, else by the body's `user`; of both only a keyed hash
// is kept.
//
// Threads: any.
// Limits:  kMost sessions; the one used longest ago is forgotten.
// Source:  routing contract, section 6 (tier 0) and section 3 (X-Request-Id and X-Trace-ID name no
//          session).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "core/http/message.hpp"
#include "core/json/body.hpp"
#include "core/route/recent.hpp"

namespace sluice::route {

// Endpoint ids; 0 = none.
struct Pair {
    std::uint64_t prefill = 0;
    std::uint64_t decode = 0;
};

class Sessions {
public:
    static constexpr std::size_t kMost = 4096;

    // `ttl_us` since it was last used; 0 = however long.
    std::optional<Pair> find(std::uint64_t session, std::uint64_t now_us, std::uint64_t ttl_us);
    void learn(std::uint64_t session, Pair pair, std::uint64_t now_us);
    void forget(std::uint64_t session);
    // Drops what names an endpoint that `stays` denies.
    void retain(const std::function<bool(std::uint64_t)>& stays);
    std::size_t size() const;

private:
    struct Entry {
        Pair pair;
        std::uint64_t used_us = 0;
    };
    mutable std::mutex mu_;
    Recent<Entry> entries_{kMost};  // guarded by mu_
};

// The session a request belongs to; 0 = none. `body` may be null.
std::uint64_t session_of(http::HeaderSpan headers, const json::Body* body,
                         json::BodyReader* reader);

}  // namespace sluice::route
