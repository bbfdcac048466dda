// The scheduling half of Engine: who is computed in the next step.
#include <algorithm>

#include "core/base/clock.hpp"
#include "tests/sim/engine/engine.hpp"
#include "tests/sim/engine/sequence.hpp"

namespace sluice::sim {

std::vector<Engine::Work> Engine::schedule() {
    std::vector<Work> step;
    std::uint32_t budget = options_.max_batched_tokens;
    // A step that had to preempt takes nobody new.
    if (schedule_running(step, budget)) {
        schedule_waiting(step, budget);
    }
    tell_usage();
    return step;
}

bool Engine::schedule_running(std::vector<Work>& step, std::uint32_t& budget) {
    bool preempted = false;
    for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
        const auto s = running_[i];
        const std::uint32_t tokens = std::min(s->size() - s->computed, budget);
        while (s->is_running && !cache_->grow(*s, s->computed + tokens)) {
            preempt_last();
            preempted = true;
        }
        if (!s->is_running) {
            break;  // it was the last one itself
        }
        budget -= tokens;
        step.push_back({s, tokens});
    }
    return !preempted;
}

void Engine::schedule_waiting(std::vector<Work>& step, std::uint32_t& budget) {
    while (!waiting_.empty() && running_.size() < options_.max_num_seqs && budget > 0) {
        const auto s = waiting_.front();
        switch (desk_ == nullptr ? HandoffDesk::Start::Computes : desk_->start(s)) {
            case HandoffDesk::Start::Computes:
                break;
            case HandoffDesk::Start::Parks:
                waiting_.pop_front();
                parked_.push_back(s);
                continue;
            case HandoffDesk::Start::Waits:
                return;
            case HandoffDesk::Start::Kills:
                fail(*s, true);
                return;
        }
        std::uint32_t tokens = 0;
        if (!admit(*s, budget, tokens)) {
            return;
        }
        waiting_.pop_front();
        s->is_running = true;
        running_.push_back(s);
        budget -= tokens;
        step.push_back({s, tokens});
    }
}

bool Engine::admit(Sequence& s, std::uint32_t budget, std::uint32_t& tokens) {
    const auto admitted = cache_->admit(s, budget);
    if (!admitted) {
        return false;
    }
    tokens = admitted->tokens;
    s.computed = admitted->cached;
    tell_scheduled(s, admitted->cached);
    return true;
}

void Engine::tell_scheduled(Sequence& s, std::uint32_t cached) {
    if (s.is_scheduled_once) {
        return;
    }
    s.is_scheduled_once = true;
    s.scheduled_us = now_us();
    if (cache_->is_enabled()) {
        stats_.cache_queries += s.size();
        stats_.cache_hits += cached;
    }
    if (const auto generation = s.mailbox.lock()) {
        const std::lock_guard lock(generation->mu_);
        generation->cached_tokens_ = cached;
    }
}

void Engine::unpark(const std::shared_ptr<Sequence>& s, bool was_fetched, std::uint32_t cached) {
    parked_.erase(std::remove(parked_.begin(), parked_.end(), s), parked_.end());
    waiting_.push_front(s);
    tell_usage();
    const auto generation = was_fetched ? s->mailbox.lock() : nullptr;
    if (generation != nullptr) {
        const std::lock_guard lock(generation->mu_);
        generation->was_fetched_ = true;
        generation->cached_tokens_ = cached;
    }
}

// Figures that follow from where the requests are.
void Engine::tell_usage() {
    stats_.running = running_.size();
    stats_.waiting = waiting_.size() + parked_.size();
    stats_.cache_usage = cache_->usage();
}

void Engine::preempt_last() {
    const auto s = running_.back();
    running_.pop_back();
    cache_->release(*s);
    s->computed = 0;
    s->is_running = false;
    ++stats_.preemptions;
    waiting_.push_front(s);
}

}  // namespace sluice::sim
