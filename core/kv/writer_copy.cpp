// How an index that comes late to an endpoint takes over what another one knows of it.
#include <algorithm>

#include "core/kv/writer.hpp"

namespace sluice::kv {

void Writer::copy(Writer& from, std::uint64_t endpoint) {
    const auto ours = endpoints_.find(endpoint);
    const auto theirs = from.endpoints_.find(endpoint);
    if (ours == endpoints_.end() || theirs == from.endpoints_.end() ||
        engine_keys_ != from.engine_keys_) {
        return;
    }
    Endpoint& ep = ours->second;
    const Endpoint& source = theirs->second;
    const std::size_t ranks = std::min(ep.ranks.size(), source.ranks.size());
    for (std::size_t r = 0; r < ranks; ++r) {
        Rank& rank = *ep.ranks[r];
        forget(ep, rank);
        rank.inventory.copy(source.ranks[r]->inventory);
        rank.inventory.blocks().for_each([](Block& block) { block.set_published(0); });
        ep.records += rank.inventory.records();
    }
    ep.oldest = source.oldest;
    ep.current = source.current;
    ep.stored_since = source.stored_since;
    make_room(ep, 0);  // this index may have the smaller bound
    for (std::size_t r = 0; r < ranks; ++r) {
        Rank& rank = *ep.ranks[r];
        rank.inventory.blocks().for_each(
            [&](Block& block) { publish(rank, block, rank.inventory.bits(block)); });
        holders_.set_doubt(rank.holder, rank.inventory.in_doubt());
        holders_.set_hidden(rank.holder, false);
        const Holder& known = from.holders_.at(source.ranks[r]->holder);
        holders_.at(rank.holder)
            .last_event_us.store(known.last_event_us.load(std::memory_order_relaxed),
                                 std::memory_order_relaxed);
        tell(ep, rank);
    }
    tidy();
}

}  // namespace sluice::kv
