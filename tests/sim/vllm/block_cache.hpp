// vLLM's prefix cache: full blocks keyed by chained hashes, and the events about them.
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
};

class BlockCache final : public PrefixCache {
public:
    BlockCache(const CacheOptions& options, Publisher* publisher)
        : options_(options), publisher_(publisher), pool_(options.blocks) {}

    std::optional<Admission> admit(Sequence& s, std::uint32_t budget) override;
    bool grow(Sequence& s, std::uint32_t upto) override;
    void release(Sequence& s) override;
    void publish() override;
    bool reset() override { return pool_.reset(); }
    double usage() const override;
    bool is_enabled() const override { return options_.caches_prefixes; }

    std::vector<std::pair<Digest, std::size_t>> cached() const { return pool_.cached(); }

private:
    struct Blocks final : Holding {
        std::vector<BlockId> ids;
        std::vector<Digest> hashes;     // of the full blocks of the tokens
        std::size_t cached_blocks = 0;  // leading blocks that are findable
    };
    static Blocks& blocks_of(Sequence& s);
    std::vector<BlockId> lookup(Sequence& s);
    void cache_full_blocks(Sequence& s, std::uint32_t upto);
    void extend_hashes(Sequence& s) const;
    void add_stored(Sequence& s, std::size_t first, std::size_t end);

    const CacheOptions options_;
    Publisher* publisher_;
    BlockPool pool_;
};

}  // namespace sluice::sim::vllm
