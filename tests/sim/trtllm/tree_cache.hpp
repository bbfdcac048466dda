// TensorRT-LLM's prefix cache: one pool of blocks for each attention window or layer group.
//
// A request stores its full prompt blocks when they are computed (the last token left out), and
// when it ends what remains, one partial block included. With a cache transceiver, what lies in the
// blocks decides what is said: content is kept, and read as it lies there.
//
// Owns:    its pools.
// Threads: none of its own; the engine's lock.
// Errors:  as PrefixCache.
// Source:  contract sections 2.4 to 2.7 and 3.6.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/engine/prefix_cache.hpp"
#include "tests/sim/engine/sequence.hpp"
#include "tests/sim/trtllm/block_tree.hpp"

namespace sluice::sim::trtllm {

struct CacheOptions {
    Era era = Era::V1_3Late;
    Manager manager = Manager::V1;
    HashAlgorithm algorithm = HashAlgorithm::V1BlockKey;
    std::uint32_t tokens_per_block = 32;
    std::uint64_t blocks = 2048;
    std::uint64_t host_blocks = 0;
    std::vector<PoolName> pools{{4096, 0}};
    bool reuses_blocks = true;
    bool reuses_partial = false;  // the longest common beginning of a block counts as cached, too
    bool keeps_content = false;   // with a cache transceiver
    std::uint64_t seed = 0;       // of the model, where content is kept
};

class TreeCache final : public PrefixCache {
public:
    struct Held {
        std::vector<Node*> chain;  // stored blocks in use, from the root
        std::uint64_t taken = 0;   // blocks after them that are written to
    };
    // A finished request's blocks, which another engine may read.
    struct Kept {
        std::vector<Held> pools;
        BlockContent content;
    };

    TreeCache(const CacheOptions& options, EventRing& ring, std::optional<std::uint32_t> rank);

    std::optional<Admission> admit(Sequence& s, std::uint32_t budget) override;
    bool grow(Sequence& s, std::uint32_t upto) override;
    void computed(Sequence& s, std::uint32_t upto) override;
    void release(Sequence& s) override;
    void publish() override { log_.flush(); }
    bool reset() override;
    double usage() const override { return pools_.front().usage(); }
    bool is_enabled() const override { return options_.reuses_blocks; }

    // Of the pool of the largest window.
    std::vector<std::pair<std::string, int>> stored() const;
    void skip_ids(std::uint64_t n) { log_.skip_ids(n); }
    // They are stored, and not given back with the request.
    Kept keep(Sequence& s);
    void give_back(const Kept& kept);

private:
    struct Blocks final : Holding {
        std::vector<Held> pools;
        std::vector<BlockKey> keys;  // of the full blocks of the tokens
        BlockContent content;        // of the tokens that were read or computed
        Readout readout;             // of all of it
        bool was_received = false;   // the prompt, from another engine; told in no event
    };
    Blocks& blocks_of(Sequence& s) const;
    Scope scope_of(const Sequence& s) const;
    std::vector<Element> elements(const Sequence& s, std::size_t first, std::size_t end) const;
    std::vector<MmKey> mm_keys(const Sequence& s, std::size_t first, std::size_t end) const;
    BlockKey key(const Sequence& s, const BlockKey& parent, std::size_t first,
                 std::size_t end) const;
    BlockKey key_before(Sequence& s, std::size_t block) const;
    void extend_keys(Sequence& s, std::size_t full) const;
    std::vector<Node*> lookup(Sequence& s, const BlockTree& pool) const;
    BlockContent partial_hit(const Sequence& s, const std::vector<Node*>& hits,
                             std::size_t& length) const;
    const BlockContent* received(Sequence& s) const;
    void read_in(Sequence& s, const BlockContent& begun, const BlockContent* received);
    void compute_upto(Sequence& s, std::size_t upto);
    void store(Sequence& s, std::size_t upto, bool has_partial);
    void store_in(Sequence& s, BlockTree& pool, Held& held, std::size_t upto, bool has_partial);

    const CacheOptions options_;
    const Keyer keyer_;
    EventLog log_;
    std::vector<BlockTree> pools_;
    std::uint64_t now_ = 0;
};

}  // namespace sluice::sim::trtllm
