// The half of TreeCache that knows what lies in the blocks, computed here or on another engine.
#include "tests/sim/trtllm/handoff.hpp"
#include "tests/sim/trtllm/tree_cache.hpp"

namespace sluice::sim::trtllm {

// What another engine sent for the prompt; null: nothing, or it was used and lost since.
const BlockContent* TreeCache::received(Sequence& s) const {
    const auto* ask = static_cast<const TransferAsk*>(s.request.handoff.get());
    const bool is_there = options_.keeps_content && ask != nullptr && ask->is_received;
    return is_there && !blocks_of(s).was_received ? &ask->received : nullptr;
}

// The model attends to the stored blocks in use, then to what follows them.
void TreeCache::read_in(Sequence& s, const BlockContent& begun, const BlockContent* received) {
    Blocks& b = blocks_of(s);
    b.content.clear();
    b.readout = Readout(options_.seed);
    const auto read = [&b](const Slot& slot) {
        b.content.push_back(slot);
        b.readout.read(slot);
    };
    for (const Node* n : b.pools.front().chain) {
        for (const Slot& slot : n->content) {
            read(slot);
        }
    }
    if (received == nullptr) {
        for (const Slot& slot : begun) {
            read(slot);
        }
        return;
    }
    b.was_received = true;
    while (b.content.size() < s.size()) {
        const std::size_t at = b.content.size();
        read(at < received->size() ? (*received)[at] : Slot{});
    }
}

// Written when planned, not when the step ends: an engine finishes a step whose client has left.
void TreeCache::compute_upto(Sequence& s, std::size_t upto) {
    if (!options_.keeps_content) {
        return;
    }
    Blocks& b = blocks_of(s);
    while (b.content.size() < upto) {
        b.content.push_back(b.readout.write(s.tokens[b.content.size()]));
    }
    s.generator.set_state(b.readout.state());
}

TreeCache::Kept TreeCache::keep(Sequence& s) {
    store(s, s.computed, true);
    Blocks& b = blocks_of(s);
    Kept out;
    out.pools = std::exchange(b.pools, std::vector<Held>(pools_.size()));
    out.content = std::exchange(b.content, {});
    return out;
}

void TreeCache::give_back(const Kept& kept) {
    ++now_;
    for (std::size_t i = 0; i < pools_.size(); ++i) {
        pools_[i].drop(kept.pools[i].chain, now_);
        pools_[i].give_back(kept.pools[i].taken);
    }
}

}  // namespace sluice::sim::trtllm
