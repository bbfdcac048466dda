#include "core/flow/event_log.hpp"

#include <algorithm>
#include <utility>

namespace sluice::flow {
namespace {

std::size_t cost_of(const EventLog::Batch& batch) noexcept {
    return batch.payload->size() + EventLog::kBatchOverhead;
}

}  // namespace

void EventLog::append(std::string payload) {
    auto shared = std::make_shared<const std::string>(std::move(payload));
    std::vector<Batch> gone;  // freed after the lock is let go
    const std::lock_guard lock(mu_);
    batches_.push_back({usage_.next++, std::move(shared)});
    usage_.bytes += cost_of(batches_.back());
    ++usage_.published;
    while (batches_.size() > max_batches_ || usage_.bytes > max_bytes_) {
        usage_.bytes -= cost_of(batches_.front());
        gone.push_back(std::move(batches_.front()));
        batches_.pop_front();
        ++usage_.dropped;
    }
    usage_.batches = batches_.size();
}

void EventLog::burn() {
    const std::lock_guard lock(mu_);
    ++usage_.next;
    ++usage_.burned;
}

std::vector<EventLog::Batch> EventLog::read(std::uint64_t from, std::size_t max_batches,
                                            std::size_t max_bytes) const {
    std::vector<Batch> out;
    const std::lock_guard lock(mu_);
    auto it = std::lower_bound(batches_.begin(), batches_.end(), from,
                               [](const Batch& b, std::uint64_t seq) { return b.seq < seq; });
    std::size_t bytes = 0;
    for (; it != batches_.end() && out.size() < max_batches; ++it) {
        bytes += cost_of(*it);
        if (!out.empty() && bytes > max_bytes) {
            break;
        }
        out.push_back(*it);
    }
    return out;
}

std::uint64_t EventLog::next() const {
    const std::lock_guard lock(mu_);
    return usage_.next;
}

EventLog::Usage EventLog::usage() const {
    const std::lock_guard lock(mu_);
    return usage_;
}

}  // namespace sluice::flow
