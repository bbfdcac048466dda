// The events of one endpoint of one rule, on their way to readers elsewhere: an encoder and a log a
// rank. Outlives edits of the rule, so that sequence numbers go on.
//
// Threads: apply(), reset(), report() event; the rest any.
// Errors:  none.
// Limits:  kMaxRanks ranks; EventLog's and EventEncoder's.
#pragma once
#include <sluice/sdk/kv.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "core/flow/event_encoder.hpp"
#include "core/flow/event_log.hpp"

namespace sluice::flow {

class EventFeed {
public:
    static constexpr std::uint32_t kMaxRanks = 64;

    struct Hooks {
        // [event] A rank that nobody knew of has events.
        std::function<void(std::uint32_t rank, const EventLogPtr& log)> on_rank;
        // [event] Some log has more.
        std::function<void()> on_more;
    };

    EventFeed(std::uint64_t max_blocks, Hooks hooks)
        : hooks_(std::move(hooks)), max_blocks_(max_blocks) {}

    void apply(const sluice_kv_batch& batch);
    void reset(std::uint32_t dp_rank);
    void report(const sluice_kv_report& report);

    // Of each rank.
    void set_max_blocks(std::uint64_t max_blocks) noexcept { max_blocks_.store(max_blocks); }
    // Made at the first call.
    EventLogPtr log(std::uint32_t rank);
    std::uint64_t left_out() const noexcept { return left_out_.load(std::memory_order_relaxed); }

private:
    struct Rank {
        Rank(std::uint32_t number, std::uint64_t max_blocks, EventLogPtr to)
            : encoder(number, max_blocks), log(std::move(to)) {}
        EventEncoder encoder;
        EventLogPtr log;
        bool is_unproven = false;
    };
    Rank* rank(std::uint32_t number);
    void append(Rank& rank, std::vector<std::string> payloads);
    void forget(Rank& rank);

    const Hooks hooks_;
    std::atomic<std::uint64_t> max_blocks_;
    std::atomic<std::uint64_t> left_out_{0};
    std::map<std::uint32_t, Rank> ranks_;  // event thread
    std::mutex mu_;
    std::map<std::uint32_t, EventLogPtr> logs_;  // guarded by mu_
};

using EventFeedPtr = std::shared_ptr<EventFeed>;

}  // namespace sluice::flow
