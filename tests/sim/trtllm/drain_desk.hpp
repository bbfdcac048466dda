// POST /kv_cache_events: hands out what the ring holds, in the time the era takes for it.
//
// Counts drains and refuses one that begins while another runs: nobody may drain beside anybody.
// A drain whose client has left still runs to its end, and what it collected is lost.
//
// Owns:    the mover thread of the eras that have one.
// Threads: drain() on connection threads; the rest from any.
// Units:   milliseconds.
// Source:  contract sections 2.1, 2.2 and 2.6.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/engine/fault.hpp"
#include "tests/sim/support/exchange.hpp"
#include "tests/sim/trtllm/era.hpp"
#include "tests/sim/trtllm/event_ring.hpp"

namespace sluice::sim::trtllm {

class DrainDesk {
public:
    struct Timing {
        std::uint32_t move_ms = 200;   // how often the mover looks
        std::uint32_t poll_ms = 100;   // how often a drain on demand does
        std::uint32_t tail_ms = 2000;  // silence that ends a drain
    };
    DrainDesk(EventRing& ring, DrainStyle style, const Timing& timing, bool publishes_elsewhere);
    ~DrainDesk();
    DrainDesk(const DrainDesk&) = delete;
    DrainDesk& operator=(const DrainDesk&) = delete;

    void drain(http::Exchange& exchange);
    // A generation request has come in.
    void note_request();
    // Faults of drains: slow-head, reset, close, hang, status, cut-after and garbage.
    FaultBoard& faults() noexcept { return faults_; }

    struct Counts {
        std::uint64_t drains = 0;    // that ran
        std::uint64_t overlaps = 0;  // refused because one was running
        std::uint64_t lost = 0;      // events collected for a client that was gone
        std::uint64_t events = 0;    // events given out
        std::uint32_t in_flight = 0;
        std::uint32_t max_in_flight = 0;  // refused ones included
    };
    Counts counts() const;
    // Forgets the counts, but not what is running.
    void forget();

private:
    std::vector<std::string> collect();
    void answer(http::Exchange& exchange, const Fault& fault);
    void end();
    std::vector<std::string> take_moved();
    void move_events(const std::stop_token& stop);

    EventRing& ring_;
    const DrainStyle style_;
    const Timing timing_;
    const bool publishes_elsewhere_;
    FaultBoard faults_;
    mutable std::mutex mu_;
    Counts counts_;                   // guarded by mu_
    std::vector<std::string> moved_;  // guarded by mu_
    bool has_had_request_ = false;    // guarded by mu_
    bool is_reader_done_ = false;     // guarded by mu_; set by a drain's end, cleared by a request
    std::jthread mover_;
};

}  // namespace sluice::sim::trtllm
