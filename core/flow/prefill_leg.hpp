// The first leg of a split request: it is sent, its reply is kept, and the adapter says what the
// reply means. What follows from that is the exchange's.
//
//   prefill.enter(index);
//   const Leg::End end = co_await prefill.run(sending, limits);
//   if (end == Leg::End::Head) { const PrefillLeg::Heard heard = prefill.hear(engine, ask); ... }
//
// Threads: its worker's loop.
// Owns:    the leg, the reply.
// Errors:  Leg's; the breaker and the endpoint's mark have learnt what an answer says of them.
// Limits:  Limits::most_bytes of a reply; of a longer one kKeptOfCut are kept, the rest is read
// past. Source:  SDK, engine adapter (on_reply).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/flow/leg.hpp"
#include "core/flow/reply_head.hpp"

namespace sluice::flow {

class PrefillLeg {
public:
    explicit PrefillLeg(const Scene& scene) : scene_(scene), leg_(scene_, head_, memory_) {}

    bool enter(std::size_t index) { return leg_.enter(index); }

    struct Limits {
        std::uint64_t deadline_us = net::kNever;  // of the whole reply
        std::size_t most_bytes = 0;
    };
    // Head: the whole reply is here. `sending` and what it borrows live until it is done.
    net::Task<Leg::End> run(const Leg::Sending& sending, Limits limits);

    // What the adapter made of the reply.
    struct Heard {
        std::uint32_t next = SLUICE_NEXT_FAIL;
        std::string handoff;
        std::uint64_t lease_us = 0;
        bool can_release = false;
        bool is_counted = false;  // by its engine, if nobody reads it in time
        std::optional<std::uint32_t> cached_tokens;
        std::vector<std::uint32_t> prompt_ids;  // as the engine counts; empty: it did not say
        // With ANSWER, the client's.
        std::string body;
        std::vector<std::pair<std::string, std::string>> headers;
        std::string reason;  // with FAIL
    };
    Heard hear(const route::Engine& engine, const route::LegAsk& ask);

    Leg& leg() noexcept { return leg_; }
    const Leg& leg() const noexcept { return leg_; }
    ReplyHead& head() noexcept { return head_; }
    std::string take_body() noexcept { return std::move(body_); }
    bool is_cut() const noexcept { return is_cut_; }
    std::uint64_t sent_us() const noexcept { return sent_us_; }
    void close() noexcept { leg_.close(); }

private:
    net::Task<Leg::End> read(std::size_t most_bytes);
    void tell_breaker(std::uint32_t next);

    // So that an adapter can tell what it was.
    static constexpr std::size_t kKeptOfCut = 4096;

    Scene scene_;
    ReplyHead head_;
    std::string memory_;
    Leg leg_;
    std::string body_;
    std::size_t most_bytes_ = 0;
    bool is_cut_ = false;
    std::uint64_t sent_us_ = 0;
};

}  // namespace sluice::flow
