// The bounded buffer of KV events that a drain empties; of all ranks together.
//
// Threads: any.
// Limits:  `capacity` events; the oldest give way, and nothing tells but the ids.
// Source:  contract section 2.6.
#pragma once
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace sluice::sim::trtllm {

class EventRing {
public:
    // 0: events are off. With `ranks` above 1 the ring holds as many more.
    EventRing(std::size_t capacity, std::size_t ranks)
        : per_rank_(capacity), capacity_(capacity * ranks) {}

    bool is_on() const noexcept { return capacity_ > 0; }
    // What one rank has to tell after one step; it is cut to that rank's share first.
    void append(std::vector<std::string> events);
    std::vector<std::string> take();
    // How many were lost to overflow.
    std::uint64_t overflowed() const;

private:
    const std::size_t per_rank_;
    const std::size_t capacity_;
    mutable std::mutex mu_;
    std::deque<std::string> events_;  // guarded by mu_; JSON objects
    std::uint64_t overflowed_ = 0;    // guarded by mu_
};

}  // namespace sluice::sim::trtllm
