// Turns normalised events into changes of the block table: keys, copies, doubt, the bound.
//
// Threads: one ([event]); what it publishes in BlockTable and Holders is read by any.
// Errors:  a malformed batch changes nothing.
// Limits:  IndexOptions::max_blocks_per_endpoint, by eviction.
// Source:  sdk/include/sluice/sdk/kv.h; service sluice.kv/1.
#pragma once
#include <sluice/sdk/kv.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/base/result.hpp"
#include "core/kv/block_table.hpp"
#include "core/kv/holders.hpp"
#include "core/kv/index.hpp"
#include "core/kv/inventory.hpp"

namespace sluice::kv {

class Writer {
public:
    Writer(BlockTable& table, Holders& holders, Retired& retired, const IndexOptions& options);

    Status attach(std::uint64_t endpoint, std::uint32_t ranks);
    void detach(std::uint64_t endpoint);
    void copy(Writer& from, std::uint64_t endpoint);
    Status apply(const sluice_kv_batch& batch, std::uint32_t* unplaced);
    void reset(std::uint64_t endpoint, std::uint32_t rank);
    void report(const sluice_kv_report& report);
    void set_max_blocks(std::uint64_t max_blocks);
    // [any]
    std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

private:
    struct Rank {
        std::uint32_t holder = 0;
        Inventory inventory;
        std::uint64_t gpu_blocks = 0;
        std::uint64_t evictions = 0, unplaced = 0, unknown_removals = 0, saturated_copies = 0;
        std::size_t told_bytes = 0;  // of this rank in bytes_
    };
    struct Endpoint {
        std::vector<std::unique_ptr<Rank>> ranks;
        std::uint64_t records = 0;
        // Age in three bits a block: generations oldest..current, modulo 8.
        unsigned oldest = 0, current = 0;
        std::uint64_t stored_since = 0;  // since `current` began
        // Where eviction goes on looking, and whether this round found anything.
        std::size_t hand_rank = 0;
        std::uint32_t hand_segment = 0, hand_at = 0;
        bool has_found = false;
    };
    struct Pending {
        std::uint64_t hash;
        Key key;
    };
    // More than one engine hash of a rank with one key: what all of them have, by bit.
    using Shares = std::array<std::uint32_t, kPlanes>;
    struct Alias {
        std::uint32_t holder;
        Key key;
        bool operator==(const Alias&) const = default;
    };
    struct AliasHash {
        std::size_t operator()(const Alias& a) const noexcept { return spread(a.key ^ a.holder); }
    };

    Status check(const sluice_kv_batch& batch, const Inventory& inventory) const;
    void warm(Rank& rank, const sluice_array& events, std::uint32_t from, std::uint32_t to);
    std::uint32_t store(Endpoint& ep, Rank& rank, const sluice_kv_event& event);
    bool store_one(Endpoint& ep, Rank& rank, const sluice_kv_event& event, unsigned group,
                   std::uint32_t at, struct Link& link);
    void remove(Endpoint& ep, Rank& rank, const sluice_kv_event& event);
    void clear(Endpoint& ep, Rank& rank, const sluice_kv_event& event);

    void publish(Rank& rank, Block& block, unsigned bits);
    void publish_pending(Rank& rank);
    void drop(Endpoint& ep, Rank& rank, Block& block);
    void forget(Endpoint& ep, Rank& rank);
    void release(Endpoint& ep, Rank& rank);
    void set_doubt(Rank& rank, bool on);

    void make_room(Endpoint& ep, std::uint64_t records);
    bool evict_one(Endpoint& ep);
    void touch(Endpoint& ep, Block& block);
    void next_generation(Endpoint& ep);

    void tell(Endpoint& ep, Rank& rank);
    void tidy();

    BlockTable& table_;
    Holders& holders_;
    Retired& retired_;
    std::uint64_t max_blocks_;
    bool engine_keys_;
    std::unordered_map<std::uint64_t, Endpoint> endpoints_;
    std::vector<Pending> pending_;
    std::unordered_map<Alias, Shares, AliasHash> aliases_;
    std::vector<std::uint32_t> freed_holders_;
    std::atomic<std::size_t> bytes_{0};
};

}  // namespace sluice::kv
