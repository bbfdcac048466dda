#include "tests/sim/vllm/block_pool.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace sluice::sim::vllm {

BlockPool::BlockPool(std::uint32_t blocks) : blocks_(std::max(blocks, 2U)) {
    for (BlockId id = 1; id < blocks_.size(); ++id) {
        blocks_[id].place = queue_.insert(queue_.end(), id);
    }
}

std::optional<BlockId> BlockPool::find(const Digest& hash) const {
    const auto it = cached_.find(hash);
    return it == cached_.end() ? std::nullopt : std::optional(it->second.front());
}

void BlockPool::touch(BlockId id) {
    Block& b = blocks_[id];
    if (b.users++ == 0) {
        queue_.erase(b.place);
    }
}

void BlockPool::evict(BlockId id) {
    Block& b = blocks_[id];
    if (!b.hash) {
        return;
    }
    const auto it = cached_.find(*b.hash);
    it->second.erase(std::find(it->second.begin(), it->second.end(), id));
    if (it->second.empty()) {
        cached_.erase(it);
    }
    events_.emplace_back(BlockRemoved{*b.hash});
    b.hash.reset();
}

std::vector<BlockId> BlockPool::take(std::size_t n) {
    assert(n <= queue_.size());
    std::vector<BlockId> out;
    out.reserve(n);
    while (out.size() < n) {
        const BlockId id = queue_.front();
        queue_.pop_front();
        evict(id);
        blocks_[id].users = 1;
        out.push_back(id);
    }
    return out;
}

void BlockPool::cache(BlockId id, const Digest& hash) {
    blocks_[id].hash = hash;
    cached_[hash].push_back(id);
}

void BlockPool::release(std::span<const BlockId> blocks) {
    // Last block first, so that a prefix outlives its continuation.
    auto front = queue_.begin();
    for (std::size_t i = blocks.size(); i-- > 0;) {
        Block& b = blocks_[blocks[i]];
        if (--b.users == 0) {
            b.place = queue_.insert(b.hash ? queue_.end() : front, blocks[i]);
        }
    }
}

bool BlockPool::reset() {
    if (queue_.size() != usable()) {
        return false;
    }
    for (Block& b : blocks_) {
        b.hash.reset();
    }
    cached_.clear();
    events_.emplace_back(AllBlocksCleared{});
    return true;
}

std::vector<std::pair<Digest, std::size_t>> BlockPool::cached() const {
    std::vector<std::pair<Digest, std::size_t>> out;
    out.reserve(cached_.size());
    for (const auto& [hash, copies] : cached_) {
        out.emplace_back(hash, copies.size());
    }
    return out;
}

std::vector<KvEvent> BlockPool::take_events() {
    return std::exchange(events_, {});
}

}  // namespace sluice::sim::vllm
