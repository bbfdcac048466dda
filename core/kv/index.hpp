// The block index of one rule: which rank of which endpoint holds which blocks of a prompt.
//
// Fed with normalised engine events, asked with the keys of a request. Events with tokens are keyed
// here by the code that keys requests (keys.hpp); the engine's hashes only link parents and
// removals, within one (endpoint, rank).
//
// Threads: one writer ([event]); match(), match_prompt(), stats(), memory() and list() from any
//          thread at any time, wait-free: no lock, no retry, no wait for the writer.
// Errors:  apply() refuses a malformed batch as a whole and an endpoint that is not attached.
// Atomic:  a batch is checked before it changes anything. While it is applied, removals are visible
//          at once and additions only when all of it is in: what a reader sees at any moment of a
//          batch is held before it or after it, never more. A walk is not a snapshot: it may meet
//          its first blocks before a batch and its last ones after it.
// Limits:  max_blocks_per_endpoint records an endpoint (one a block, and one more for each tier
//          beyond GPU and host, or group beyond the first, that holds it), about 50 bytes each;
//          beyond it the records least recently stored go, to a sixth of the bound exact. 65,536
//          ranks in all, 32 cache groups a rank, 255 copies a block.
// Source:  sdk/include/sluice/sdk/kv.h.
#pragma once
#include <sluice/sdk/kv.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/kv/keys.hpp"
#include "core/kv/match.hpp"

namespace sluice::kv {

inline constexpr std::uint64_t kMinMaxBlocks = 1'000;
inline constexpr std::uint64_t kDefaultMaxBlocks = 1'000'000;
inline constexpr std::uint64_t kMaxMaxBlocks = 100'000'000;

struct IndexOptions {
    std::uint64_t max_blocks_per_endpoint = kDefaultMaxBlocks;
    // SLUICE_CAP_ENGINE_KEYS: the engine's hash is the key, tokens of events are not looked at.
    bool engine_keys = false;
};

// One (endpoint, rank) at the last batch. Counters start at attach().
struct HolderStats {
    std::uint64_t endpoint = 0;
    std::uint32_t rank = 0;
    bool doubtful = false;               // blocks older than the last UNPROVEN report are
    std::uint64_t gpu_blocks = 0;        // that requests can match on GPU
    std::uint64_t total_blocks = 0;      // known by hash: every tier, opaque ones included
    std::uint64_t last_event_us = 0;     // now_us() of the last batch; 0 = none yet
    std::uint64_t evictions = 0;         // dropped at max_blocks_per_endpoint
    std::uint64_t unplaced = 0;          // hashes stored without a known parent or block
    std::uint64_t unknown_removals = 0;  // hashes removed that were not held
    std::uint64_t saturated_copies = 0;  // stores beyond 255 copies of one block
};

struct MemoryUse {
    std::uint64_t index_bytes = 0;        // key -> holders, what readers walk
    std::uint64_t engine_hash_bytes = 0;  // engine hash -> key and copies
    std::uint64_t retired_bytes = 0;      // replaced, waiting for readers to leave
    std::uint64_t total() const noexcept { return index_bytes + engine_hash_bytes + retired_bytes; }
};

class Index {
public:
    // `options` are valid: the rule's fields were checked against kMin/kMaxMaxBlocks.
    explicit Index(const IndexOptions& options);
    // No reader may be inside, none may come.
    ~Index();
    Index(const Index&) = delete;
    Index& operator=(const Index&) = delete;

    // [event] Makes ranks 0..ranks-1 of an endpoint known; again with another number adds or
    // forgets ranks and keeps the others. Fails with Limit when the rule has too many.
    Status attach(std::uint64_t endpoint, std::uint32_t ranks);
    // [event] Replaces what is known of an endpoint by what `from` knows of it; nothing if it is
    // not attached to both. For a rule that comes late to an endpoint others follow.
    void copy(Index& from, std::uint64_t endpoint);
    // [event] Forgets the endpoint. Batches that come late are NotFound.
    void detach(std::uint64_t endpoint);

    // [event] *unplaced (may be null) is set to the hashes of this batch that found no place.
    Status apply(const sluice_kv_batch& batch, std::uint32_t* unplaced = nullptr);
    // [event] Forgets the blocks of a rank, or of all (SLUICE_ANY). Unknown ones are no error.
    void reset(std::uint64_t endpoint, std::uint32_t rank);
    // [event] UNPROVEN makes the blocks stored so far doubtful, LIVE ends the doubt; any other
    // state leaves the blocks as they are.
    void report(const sluice_kv_report& report);
    // [event] A new bound; what is over it goes at once.
    void set_max_blocks(std::uint64_t max_blocks_per_endpoint);

    // [any] How far each holder reaches into `query`, whose first key is block 0 of a prompt. The
    // caller cuts the query to usable_blocks(). O(blocks) with up to 64 ranks, early exit.
    void match(std::span<const Key> query, MatchSet& out) const;
    // [any] The same without keys made before: chains only as far as some holder reaches. Not for
    // engine_keys.
    void match_prompt(Key root, std::span<const std::uint32_t> tokens, std::uint32_t block_tokens,
                      MatchSet& out) const;

    // [any] Every attached rank.
    std::vector<HolderStats> stats() const;
    MemoryUse memory() const noexcept;
    // [any] Keys of up to `limit` blocks of an endpoint, in no particular order. Walks the index:
    // for people, not for the request path.
    std::vector<Key> list(std::uint64_t endpoint, std::size_t limit) const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace sluice::kv
