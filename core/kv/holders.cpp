#include "core/kv/holders.hpp"

namespace sluice::kv {

std::uint32_t Holders::acquire(std::uint64_t endpoint, std::uint32_t rank) {
    if (free_.empty()) {
        const auto i = static_cast<std::uint32_t>(owned_.size());
        owned_.push_back(std::make_unique<Stripe>());
        stripes_[i].store(owned_.back().get());
        count_.store(i + 1);
        for (std::uint32_t at = 0; at < 64; ++at) {
            free_.push(i * 64 + at);
        }
    }
    const std::uint32_t id = free_.top();
    free_.pop();
    Holder& holder = at(id);
    for (Holder::Number* n :
         {&holder.gpu_blocks, &holder.total_blocks, &holder.last_event_us, &holder.evictions,
          &holder.unplaced, &holder.unknown_removals, &holder.saturated_copies}) {
        n->store(0, std::memory_order_relaxed);
    }
    holder.endpoint.store(endpoint, std::memory_order_relaxed);
    holder.rank.store(rank, std::memory_order_relaxed);
    put(&Stripe::doubt, id, false);
    put(&Stripe::hidden, id, false);
    put(&Stripe::attached, id, true);
    return id;
}

void Holders::release(std::uint32_t id) {
    put(&Stripe::attached, id, false);
}

void Holders::put(std::atomic<std::uint64_t> Stripe::* mask, std::uint32_t id, bool on) {
    auto& bits = stripe(id / 64)->*mask;
    const std::uint64_t bit = std::uint64_t{1} << (id % 64);
    bits.store(on ? bits.load() | bit : bits.load() & ~bit);
}

}  // namespace sluice::kv
