// One request's wait for the next bytes of an endpoint, and the look whether anybody is still
// there.
//
// An engine that dies badly closes its listening port and leaves the connections it has in silence.
// Whoever has heard nothing for kPatience asks for a look: one connect to the port, however many
// wait for the endpoint. A port that refuses twice in a row ends every request that has been silent
// since before the first look; a port that accepts ends none, whatever the silence.
//
// Threads: a Silence is its loop's; PortLook in Endpoint is shared by all of them.
// Limits:  one look at a time an endpoint, kPatience apart at first and at most kMaxGap while the
//          port goes on accepting: an engine that hangs must not find its backlog full of looks.
// Source:  vLLM contract, SIGTERM: "silence with a port that refuses new connections is an engine
//          that is gone".
#pragma once
#include <chrono>
#include <cstdint>

#include "core/fleet/endpoint.hpp"
#include "core/net/loop.hpp"

namespace sluice::fleet {

class Silence {
public:
    static constexpr std::chrono::milliseconds kPatience{1500};
    static constexpr std::chrono::seconds kMaxGap{6};

    // Bytes came, or the request went out. `limit_us` ends the wait for the next ones.
    void begin(std::uint64_t now, std::uint64_t limit_us) noexcept {
        since_us_ = now;
        limit_us_ = limit_us;
        next_us_ = now + kPatienceUs;
    }
    // Until when to wait before asking again.
    std::uint64_t deadline_us() const noexcept {
        return next_us_ < limit_us_ ? next_us_ : limit_us_;
    }
    bool is_over(std::uint64_t now) const noexcept { return now >= limit_us_; }

    // After a wait until deadline_us(): nobody is there any more. Else a look is under way or not
    // due yet, and the next wait is set.
    bool is_gone(net::Loop& loop, const net::Address& port, const EndpointPtr& endpoint);

private:
    static constexpr std::uint64_t kPatienceUs =
        std::chrono::duration_cast<std::chrono::microseconds>(kPatience).count();

    std::uint64_t since_us_ = 0;
    std::uint64_t next_us_ = net::kNever;
    std::uint64_t limit_us_ = net::kNever;
};

}  // namespace sluice::fleet
