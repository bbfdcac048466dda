#include "tests/sim/trtllm/engine.hpp"

#include <algorithm>
#include <limits>

#include "core/base/clock.hpp"
#include "tests/sim/engine/sequence.hpp"

namespace sluice::sim::trtllm {

Engine::Engine(const EngineOptions& options, const TextModel& model, EventRing& ring,
               std::optional<std::uint32_t> rank)
    : sim::Engine(options, model, std::make_unique<TreeCache>(options.cache, ring, rank)),
      transfer_timeout_us_(options.transfer_timeout_us) {
    if (options.cache.keeps_content) {
        const auto held = lock();
        set_desk(this);
    }
}

Engine::~Engine() {
    const auto held = lock();
    set_desk(nullptr);
}

// Keeps the blocks of a finished context leg. An answer that is complete has none to wait for.
void Engine::finished(Sequence& s, FinishReason reason) {
    const auto* ask = static_cast<const TransferAsk*>(s.request.handoff.get());
    if (ask == nullptr || ask->id == 0 ||
        (reason != FinishReason::Length && !ask->holds_after_stop) || leases_.count(ask->id) != 0) {
        return;
    }
    Lease& lease = leases_[ask->id];
    lease.kept = tree().keep(s);
    lease.state = ask->state;
    lease.made_us = now_us();
    lease.ends_us = lease.made_us + transfer_timeout_us_;
}

std::uint64_t Engine::expire() {
    const std::uint64_t now = now_us();
    std::uint64_t next = std::numeric_limits<std::uint64_t>::max();
    for (auto it = leases_.begin(); it != leases_.end();) {
        const auto at = it++;  // end_lease() takes it out
        if (at->second.ends_us <= now) {
            ++counts().kv_expired;
            end_lease(at);
        } else {
            next = std::min(next, at->second.ends_us - now);
        }
    }
    return next;
}

void Engine::end_lease(std::map<std::uint64_t, Lease>::iterator it) {
    tree().give_back(it->second.kept);
    leases_.erase(it);
    tell_usage();
}

std::pair<Engine::Read, BlockContent> Engine::hand_over(std::uint64_t id, std::string_view state) {
    const auto held = lock();
    const auto it = leases_.find(id);
    if (it == leases_.end()) {
        return {Read::Unknown, {}};
    }
    if (it->second.state != state) {
        return {Read::Differs, {}};
    }
    std::pair<Read, BlockContent> out{Read::Done, std::move(it->second.kept.content)};
    ++counts().kv_read;
    end_lease(it);
    wake();
    return out;
}

std::vector<LeaseView> Engine::leases() const {
    const auto held = lock();
    const std::uint64_t now = now_us();
    std::vector<LeaseView> out;
    for (const auto& [id, lease] : leases_) {
        const TreeCache::Held& blocks = lease.kept.pools.front();
        out.push_back({id, blocks.chain.size() + blocks.taken, now - lease.made_us,
                       lease.ends_us > now ? lease.ends_us - now : 0});
    }
    return out;
}

}  // namespace sluice::sim::trtllm
