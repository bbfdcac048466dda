// The writer's second half: what readers see, and what goes when there is too much.
#include <algorithm>

#include "core/kv/writer.hpp"

namespace sluice::kv {
namespace {

void add_shares(std::array<std::uint32_t, kPlanes>& shares, unsigned bits) noexcept {
    for (unsigned p = 0; p < kPlanes; ++p) {
        shares[p] += bits >> p & 1U;
    }
}

unsigned shown(const std::array<std::uint32_t, kPlanes>& shares) noexcept {
    unsigned bits = 0;
    for (unsigned p = 0; p < kPlanes; ++p) {
        bits |= (shares[p] != 0 ? 1U : 0U) << p;
    }
    return bits;
}

}  // namespace

void Writer::publish(Rank& rank, Block& block, unsigned bits) {
    const unsigned was = block.published();
    if (bits == was) {
        return;
    }
    block.set_published(bits);
    rank.gpu_blocks += (bits & kGpu) != 0 ? 1 : 0;
    rank.gpu_blocks -= (was & kGpu) != 0 ? 1 : 0;
    if (!aliases_.empty()) {
        if (const auto it = aliases_.find({rank.holder, block.key()}); it != aliases_.end()) {
            add_shares(it->second, bits);
            for (unsigned p = 0; p < kPlanes; ++p) {
                it->second[p] -= was >> p & 1U;
            }
            const unsigned now = shown(it->second);
            if (now == 0) {
                aliases_.erase(it);
            }
            table_.set(block.key(), rank.holder, now);
            return;
        }
    }
    const unsigned had = table_.set(block.key(), rank.holder, bits);
    if (had != was) {
        // Another hash of this rank has the key already: rare, so only then are shares counted.
        Shares shares{};
        add_shares(shares, had);
        add_shares(shares, bits);
        table_.set(block.key(), rank.holder, shown(shares));
        aliases_.emplace(Alias{rank.holder, block.key()}, shares);
    }
}

void Writer::publish_pending(Rank& rank) {
    constexpr std::size_t kLead = 8;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
        if (i + kLead < pending_.size()) {
            rank.inventory.prefetch(pending_[i + kLead].hash);
            table_.prefetch(pending_[i + kLead].key);
        }
        // Removed again by the same batch, or evicted: then there is nothing to show.
        if (Block* block = rank.inventory.find(pending_[i].hash); block != nullptr) {
            publish(rank, *block, rank.inventory.bits(*block));
        }
    }
    pending_.clear();
    constexpr std::size_t kKeep = 65'536;
    if (pending_.capacity() > kKeep) {
        pending_.shrink_to_fit();
    }
}

void Writer::drop(Endpoint& ep, Rank& rank, Block& block) {
    publish(rank, block, 0);
    const std::size_t before = rank.inventory.records();
    rank.inventory.erase(block);
    ep.records -= before - rank.inventory.records();
}

// Leaves the holder hidden.
void Writer::forget(Endpoint& ep, Rank& rank) {
    holders_.set_hidden(rank.holder, true);
    if (!aliases_.empty()) {
        std::erase_if(aliases_, [&](const auto& a) { return a.first.holder == rank.holder; });
    }
    std::array<Key, 16> keys{};
    std::size_t n = 0;
    const auto flush = [&] {
        for (std::size_t i = 0; i < n; ++i) {
            table_.set(keys[i], rank.holder, 0);
        }
        n = 0;
    };
    rank.inventory.blocks().for_each([&](Block& block) {
        if (block.published() != 0) {
            table_.prefetch(block.key());
            keys[n++] = block.key();
        }
        if (n == keys.size()) {
            flush();
        }
    });
    flush();
    ep.records -= rank.inventory.records();
    rank.inventory.clear();
    rank.gpu_blocks = 0;
    holders_.set_doubt(rank.holder, false);
}

void Writer::release(Endpoint& ep, Rank& rank) {
    forget(ep, rank);
    holders_.release(rank.holder);
    bytes_.store(bytes() - rank.told_bytes, std::memory_order_relaxed);
    retired_.holder(rank.holder);
}

void Writer::set_doubt(Rank& rank, bool on) {
    Inventory& inventory = rank.inventory;
    // The holder's mask first: it changes what all its blocks count for at once. After it, the
    // marks of the time before are taken off, so that the next doubt finds none.
    holders_.set_doubt(rank.holder, on);
    inventory.set_doubt(on);
    inventory.end_certainty([&](Block& block) { publish(rank, block, inventory.bits(block)); });
}

void Writer::set_max_blocks(std::uint64_t max_blocks) {
    max_blocks_ = std::max<std::uint64_t>(max_blocks, 2);
    for (auto& [id, ep] : endpoints_) {
        make_room(ep, 0);
        for (const auto& rank : ep.ranks) {
            tell(ep, *rank);
        }
    }
    tidy();
}

void Writer::make_room(Endpoint& ep, std::uint64_t records) {
    while (ep.records + records > max_blocks_ && evict_one(ep)) {
    }
}

// False when the endpoint has no block.
bool Writer::evict_one(Endpoint& ep) {
    // Generations narrow by one a round without a find; after that anything goes.
    constexpr int kRounds = 6;
    for (int round = 0; round <= kRounds; ++round) {
        for (; ep.hand_rank < ep.ranks.size(); ++ep.hand_rank, ep.hand_segment = 0) {
            Rank& rank = *ep.ranks[ep.hand_rank];
            auto& blocks = rank.inventory.blocks();
            for (; ep.hand_segment < blocks.kSegments; ++ep.hand_segment, ep.hand_at = 0) {
                while (Block* block = blocks.next_in(ep.hand_segment, ep.hand_at)) {
                    if (block->generation() == ep.oldest || round == kRounds) {
                        ep.has_found = true;
                        --ep.hand_at;  // another block may move to this place
                        ++rank.evictions;
                        drop(ep, rank, *block);
                        return true;
                    }
                }
            }
        }
        ep.hand_rank = 0;
        ep.hand_segment = ep.hand_at = 0;
        if (!ep.has_found && ep.oldest != ep.current) {
            ep.oldest = (ep.oldest + 1) % Block::kGenerations;
        }
        ep.has_found = false;
    }
    return false;
}

void Writer::touch(Endpoint& ep, Block& block) {
    // Six hold what the bound allows; the two more let the oldest run out before its number is
    // needed again.
    if (++ep.stored_since > max_blocks_ / 6) {
        next_generation(ep);
        ep.stored_since = 1;
    }
    block.set_generation(ep.current);
}

void Writer::next_generation(Endpoint& ep) {
    const unsigned next = (ep.current + 1) % Block::kGenerations;
    if (next == ep.oldest) {
        // Its number is about to mean "newest": the two oldest become one.
        const unsigned merged = (ep.oldest + 1) % Block::kGenerations;
        for (const auto& rank : ep.ranks) {
            rank->inventory.blocks().for_each([&](Block& block) {
                if (block.generation() == ep.oldest) {
                    block.set_generation(merged);
                }
            });
        }
        ep.oldest = merged;
    }
    ep.current = next;
}

// Brings what other threads read about a rank up to date.
void Writer::tell(Endpoint& ep, Rank& rank) {
    const auto put = [](Holder::Number& n, std::uint64_t v) {
        n.store(v, std::memory_order_relaxed);
    };
    Holder& holder = holders_.at(rank.holder);
    put(holder.gpu_blocks, rank.gpu_blocks);
    put(holder.total_blocks, rank.inventory.blocks().size());
    put(holder.evictions, rank.evictions);
    put(holder.unplaced, rank.unplaced);
    put(holder.unknown_removals, rank.unknown_removals);
    put(holder.saturated_copies, rank.saturated_copies);
    const std::size_t bytes_now = rank.inventory.bytes();
    bytes_.store(bytes() + bytes_now - rank.told_bytes, std::memory_order_relaxed);
    rank.told_bytes = bytes_now;
    // At the bound a batch of one rank may have evicted blocks of another.
    if (ep.ranks.size() > 1 && ep.records + 2 >= max_blocks_) {
        for (const auto& other : ep.ranks) {
            if (other.get() != &rank) {
                Holder& h = holders_.at(other->holder);
                put(h.gpu_blocks, other->gpu_blocks);
                put(h.total_blocks, other->inventory.blocks().size());
                put(h.evictions, other->evictions);
            }
        }
    }
}

void Writer::tidy() {
    table_.rest();
    retired_.collect(freed_holders_);
    for (const std::uint32_t id : freed_holders_) {
        holders_.recycle(id);
    }
    freed_holders_.clear();
}

}  // namespace sluice::kv
