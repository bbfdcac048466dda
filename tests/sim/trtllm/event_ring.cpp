#include "tests/sim/trtllm/event_ring.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice::sim::trtllm {

void EventRing::append(std::vector<std::string> events) {
    if (!is_on()) {
        return;
    }
    const std::size_t skipped = events.size() - std::min(events.size(), per_rank_);
    const std::lock_guard lock(mu_);
    events_.insert(events_.end(),
                   std::make_move_iterator(events.begin() + static_cast<std::ptrdiff_t>(skipped)),
                   std::make_move_iterator(events.end()));
    overflowed_ += skipped;
    while (events_.size() > capacity_) {
        events_.pop_front();
        ++overflowed_;
    }
}

std::vector<std::string> EventRing::take() {
    const std::lock_guard lock(mu_);
    std::vector<std::string> out(std::make_move_iterator(events_.begin()),
                                 std::make_move_iterator(events_.end()));
    events_.clear();
    return out;
}

std::uint64_t EventRing::overflowed() const {
    const std::lock_guard lock(mu_);
    return overflowed_;
}

}  // namespace sluice::sim::trtllm
