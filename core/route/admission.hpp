// How many requests a prefill endpoint has at a time, and who waits for it.
//
//   Waiter waiter(loop, admission, endpoint);
//   if (waiter.park(limits)) { const Status granted = co_await waiter.granted(wait); ... }
//   Slot slot = waiter.take();
//
// A place that becomes free is handed to the one that waits longest, so nobody overtakes; while
// somebody waits an endpoint is full. A slot that is given back anywhere wakes the loop its next
// owner runs on.
//
// Threads: any; a Waiter is its loop's.
// Owns:    a Slot gives its place back exactly once, a Waiter leaves its queue, on every way out.
// Limits:  AdmissionLimits.
// Source:  routing contract, section 6 (admission).
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "core/net/event.hpp"
#include "core/net/loop.hpp"

namespace sluice::route {

struct AdmissionLimits {
    std::uint32_t max_inflight = 0;  // of an endpoint; 0 = no limit
    std::uint32_t queue_depth = 0;   // of an endpoint
};

class Admission;

// One request's place at an endpoint.
class Slot {
public:
    Slot() = default;
    ~Slot() { release(); }
    Slot(Slot&& other) noexcept;
    Slot& operator=(Slot&& other) noexcept;
    bool is_held() const noexcept { return from_ != nullptr; }
    std::uint64_t endpoint() const noexcept { return endpoint_; }
    void release() noexcept;

private:
    friend class Admission;
    friend class Waiter;
    Slot(std::shared_ptr<Admission> from, std::uint64_t endpoint) noexcept
        : from_(std::move(from)), endpoint_(endpoint) {}
    std::shared_ptr<Admission> from_;
    std::uint64_t endpoint_ = 0;
};

class Admission : public std::enable_shared_from_this<Admission> {
public:
    // Lets in those who wait when there is more room now. [control]
    void set_limits(AdmissionLimits limits);
    AdmissionLimits limits() const;
    // Whoever waits for an endpoint that `stays` denies is sent away to choose anew. [control]
    void retain(const std::function<bool(std::uint64_t)>& stays);

    bool is_full(std::uint64_t endpoint) const;
    // Not held when the endpoint is full.
    Slot try_take(std::uint64_t endpoint);
    std::size_t queued(std::uint64_t endpoint) const;
    std::uint32_t held(std::uint64_t endpoint) const;

private:
    friend class Slot;
    friend class Waiter;
    struct Place;  // in a queue; shared by the waiter and by who grants it
    struct Line {
        std::uint32_t held = 0;
        std::deque<std::shared_ptr<Place>> queue;
    };
    bool is_full(const Line& line) const noexcept;
    void give_back(std::uint64_t endpoint) noexcept;
    void let_in(Line& line);                                            // with mu_ held
    static void wake(const std::shared_ptr<Place>& place);              // with mu_ held
    void forget_if_idle(std::map<std::uint64_t, Line>::iterator line);  // with mu_ held

    mutable std::mutex mu_;
    AdmissionLimits limits_;               // guarded by mu_
    std::map<std::uint64_t, Line> lines_;  // guarded by mu_, by endpoint id
};

class Waiter {
public:
    Waiter(net::Loop& loop, std::shared_ptr<Admission> at, std::uint64_t endpoint);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    // False when the queue is full.
    bool park();
    // Ok when woken; Timeout or Cancelled as waited for.
    net::Task<Status> granted(net::Wait wait);
    // The place that was handed over; not held when the endpoint left the rule meanwhile.
    Slot take();

private:
    net::Event woken_;
    net::Loop& loop_;
    std::shared_ptr<Admission> at_;
    std::uint64_t endpoint_;
    std::shared_ptr<Admission::Place> place_;  // null: not parked, or taken
};

}  // namespace sluice::route
