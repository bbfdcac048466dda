// The paged KV cache: physical blocks, the queue of free ones, and which hold which prefix.
//
// A block becomes findable when it is full. Freed blocks keep their content until they are taken
// for something else, oldest first; then it is evicted. Two blocks may hold the same prefix.
//
// Threads: none of its own; the engine's lock.
// Errors:  allocate() refuses when it would need more blocks than are free; nothing is then taken.
// Units:   blocks, by index; block 0 is the null block and never given out.
// Source:  vLLM 0.32 BlockPool and FreeKVCacheBlockQueue; order of freed blocks as seen in captures
//          pd-prefill-* (a block without a hash goes to the front of the queue).
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tests/sim/vllm/events.hpp"
#include "tests/sim/vllm/hash.hpp"

namespace sluice::sim::vllm {

using BlockId = std::uint32_t;

struct DigestHash {
    std::size_t operator()(const Digest& d) const noexcept {
        return static_cast<std::size_t>(low_64(d));
    }
};

class BlockPool {
public:
    explicit BlockPool(std::uint32_t blocks);

    // The block that holds this prefix; of several, the one cached first.
    std::optional<BlockId> find(const Digest& hash) const;
    // Takes part in one more request; a free block leaves the queue.
    void touch(BlockId id);
    // `n` blocks to write to, evicting what they held. Precondition: n <= free().
    std::vector<BlockId> take(std::size_t n);
    // The block is full and findable from now on. Says nothing: the caller reports whole runs.
    void cache(BlockId id, const Digest& hash);
    // Gives back a request's blocks, in their order in the sequence.
    void release(std::span<const BlockId> blocks);
    // Forgets all content. False, and nothing done, while a request holds blocks.
    bool reset();

    bool is_free(BlockId id) const noexcept { return blocks_[id].users == 0; }
    std::size_t free() const noexcept { return queue_.size(); }
    // Blocks a request can have at all.
    std::size_t usable() const noexcept { return blocks_.size() - 1; }
    // Findable hashes with their number of copies.
    std::vector<std::pair<Digest, std::size_t>> cached() const;

    // What happened since the last call, in order.
    std::vector<KvEvent> take_events();
    void add_event(KvEvent e) { events_.push_back(std::move(e)); }

private:
    struct Block {
        std::uint32_t users = 0;
        std::optional<Digest> hash;
        std::list<BlockId>::iterator place;  // in queue_, valid while users is 0
    };
    void evict(BlockId id);

    std::vector<Block> blocks_;
    std::list<BlockId> queue_;  // free blocks, next to be taken first
    // Copies in the order they were cached.
    std::unordered_map<Digest, std::vector<BlockId>, DigestHash> cached_;
    std::vector<KvEvent> events_;
};

}  // namespace sluice::sim::vllm
