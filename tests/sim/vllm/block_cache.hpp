// vLLM's prefix cache: full blocks keyed by chained hashes, and the events about them.
//
// With a connector that transfers, what lies in the blocks decides what is said: content is kept,
// written when a step is planned, and read as it lies there.
//
// Owns:    the block pool.
// Threads: none of its own; the engine's lock.
// Errors:  as PrefixCache.
// Source:  vLLM 0.32 KV cache manager; contract section 2.1.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/sim/engine/kv_content.hpp"
#include "tests/sim/engine/prefix_cache.hpp"
#include "tests/sim/engine/sequence.hpp"
#include "tests/sim/vllm/block_pool.hpp"
#include "tests/sim/vllm/publisher.hpp"

namespace sluice::sim::vllm {

struct CacheOptions {
    std::uint32_t block_size = 32;
    std::uint32_t blocks = 1024;
    bool caches_prefixes = true;
    bool tags_extra_keys = true;  // 0.31 and later
    HashAlgorithm algorithm = HashAlgorithm::Sha256;
    Digest none_hash{};
    bool keeps_content = false;
    std::uint64_t seed = 0;  // of the model, where content is kept
};

class BlockCache final : public PrefixCache {
public:
    BlockCache(const CacheOptions& options, Publisher* publisher)
        : options_(options),
          publisher_(publisher),
          pool_(options.blocks),
          content_(options.keeps_content ? options.blocks : 0) {}

    std::optional<Admission> admit(Sequence& s, std::uint32_t budget) override;
    bool grow(Sequence& s, std::uint32_t upto) override;
    void release(Sequence& s) override;
    void publish() override;
    bool reset() override { return pool_.reset(); }
    double usage() const override;
    bool is_enabled() const override { return options_.caches_prefixes; }

    std::vector<std::pair<Digest, std::size_t>> cached() const { return pool_.cached(); }

    // Blocks for all tokens of a request whose prompt comes from another engine.
    struct Reserved {
        std::uint32_t cached = 0;  // tokens found here
        std::size_t missing = 0;   // last blocks that are to be filled
    };
    // Empty: `missing` would be more than `most`.
    std::optional<Reserved> would_reserve(Sequence& s, std::size_t most);
    // False: that many are not free; nothing is then taken.
    bool reserve(Sequence& s);
    // They came, from the last one backwards; all but the last token counts as computed.
    void fill_reserved(Sequence& s, std::vector<BlockContent> blocks);
    // A finished request's blocks, which are not given back with it.
    std::vector<BlockId> keep(Sequence& s) { return std::exchange(blocks_of(s).ids, {}); }
    void give_back(const std::vector<BlockId>& ids) { pool_.release(ids); }
    // What lies in these blocks now; empty: there is no such block.
    std::optional<std::vector<BlockContent>> read(const std::vector<BlockId>& ids) const;

private:
    struct Blocks final : Holding {
        std::vector<BlockId> ids;
        std::vector<Digest> hashes;     // of the full blocks of the tokens
        std::size_t cached_blocks = 0;  // leading blocks that are findable
        Readout readout;                // of the first `read` tokens
        std::uint32_t read = 0;
        bool is_filled = false;  // by another engine; not looked up again
    };
    static Blocks& blocks_of(Sequence& s);
    std::vector<BlockId> lookup(Sequence& s);
    std::size_t needed_for(const std::vector<BlockId>& hits, std::size_t fresh) const;
    void take_up(Sequence& s, const std::vector<BlockId>& hits);
    void read_upto(Sequence& s, std::uint32_t upto);
    void compute_upto(Sequence& s, std::uint32_t upto);
    void cache_full_blocks(Sequence& s, std::uint32_t upto);
    void extend_hashes(Sequence& s) const;
    void add_stored(Sequence& s, std::size_t first, std::size_t end);

    const CacheOptions options_;
    Publisher* publisher_;
    BlockPool pool_;
    std::vector<BlockContent> content_;  // by block, empty: never written
};

}  // namespace sluice::sim::vllm
