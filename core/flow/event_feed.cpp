#include "core/flow/event_feed.hpp"

#include <utility>

#include "core/base/clock.hpp"

namespace sluice::flow {
namespace {

// The publisher's clock, not the engine's: a number that is given out again after a start of this
// gateway never has the same bytes, by which readers tell one publisher from the next.
double seconds() noexcept {
    return static_cast<double>(wall_us()) * 1e-6;
}

}  // namespace

EventLogPtr EventFeed::log(std::uint32_t number) {
    const std::lock_guard lock(mu_);
    EventLogPtr& log = logs_[number];
    if (!log) {
        log = std::make_shared<EventLog>();
    }
    return log;
}

EventFeed::Rank* EventFeed::rank(std::uint32_t number) {
    if (const auto it = ranks_.find(number); it != ranks_.end()) {
        return &it->second;
    }
    if (number >= kMaxRanks) {
        return nullptr;
    }
    const EventLogPtr to = log(number);
    Rank& made = ranks_.try_emplace(number, number, max_blocks_.load(), to).first->second;
    hooks_.on_rank(number, to);
    return &made;
}

void EventFeed::append(Rank& rank, std::vector<std::string> payloads) {
    if (payloads.empty()) {
        return;
    }
    for (std::string& payload : payloads) {
        rank.log->append(std::move(payload));
    }
    hooks_.on_more();
}

void EventFeed::apply(const sluice_kv_batch& batch) {
    Rank* const to = rank(batch.dp_rank);
    if (to == nullptr) {
        return;
    }
    to->encoder.set_max_blocks(max_blocks_.load());
    const std::uint64_t before = to->encoder.left_out();
    append(*to, to->encoder.encode(batch, seconds()));
    left_out_.fetch_add(to->encoder.left_out() - before, std::memory_order_relaxed);
}

void EventFeed::forget(Rank& rank) {
    append(rank, rank.encoder.forget(seconds()));
}

void EventFeed::reset(std::uint32_t dp_rank) {
    for (auto& [number, rank] : ranks_) {
        if (dp_rank == SLUICE_ANY || dp_rank == number) {
            forget(rank);
        }
    }
}

void EventFeed::report(const sluice_kv_report& report) {
    if (report.state == SLUICE_KV_SAME) {
        return;
    }
    for (auto& [number, rank] : ranks_) {
        if (report.dp_rank != SLUICE_ANY && report.dp_rank != number) {
            continue;
        }
        const bool was_unproven =
            std::exchange(rank.is_unproven, report.state == SLUICE_KV_UNPROVEN);
        if (report.state == SLUICE_KV_REFUSED || report.state == SLUICE_KV_DEAD) {
            forget(rank);
        } else if (rank.is_unproven && !was_unproven && rank.encoder.has_told()) {
            // A number that never comes is what doubt looks like in this form; the batch after it
            // lets readers see it now.
            rank.log->burn();
            append(rank, {rank.encoder.nothing(seconds())});
        }
    }
}

}  // namespace sluice::flow
