// Remembers the ids of whole segments, the pieces of a prompt between added tokens.
//
// A conversation sends its old turns again with every new one; they are found here. Least recently
// used goes first. Entries are compared by their text, so a hash collision cannot give wrong ids.
//
// Threads: any, at once. One lock a shard, held for a look-up and the move to the front; texts are
//          compared and copied outside.
// Errors:  none; what is too large for a shard is not remembered.
// Limits:  the bytes given to the constructor, entries with their overhead; 0 turns it off.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tokens/token_id.hpp"

namespace sluice::tokens {

class SegmentCache {
public:
    static constexpr std::size_t kShards = 8;

    struct Use {
        std::size_t entries = 0;
        std::size_t bytes = 0;
    };
    using Ids = std::shared_ptr<const std::vector<TokenId>>;

    explicit SegmentCache(std::size_t bytes) : shard_bytes_(bytes / kShards) {}

    // `salt` tells apart what the text alone does not: the same text gives other ids at the start.
    static std::uint64_t key_of(std::string_view text, std::uint64_t salt) noexcept;

    // True if text of that size can be kept at all.
    bool accepts(std::size_t text_bytes) const noexcept;

    // Null if not remembered. The ids stay valid as long as they are held.
    Ids find(std::uint64_t key, std::string_view text, std::uint64_t salt);
    void put(std::uint64_t key, std::string_view text, std::uint64_t salt, const TokenId* ids,
             std::size_t count);

    Use use() const;

private:
    struct Entry {
        std::uint64_t key;
        std::uint64_t salt;
        std::string text;
        std::vector<TokenId> ids;

        std::size_t cost() const noexcept;
    };
    using Order = std::list<std::shared_ptr<const Entry>>;  // front: used last
    struct Shard {
        mutable std::mutex mu;
        Order order;                                               // guarded by mu
        std::unordered_map<std::uint64_t, Order::iterator> where;  // guarded by mu
        std::size_t bytes = 0;                                     // guarded by mu
    };

    Shard& shard_of(std::uint64_t key) noexcept { return shards_[key >> 61U]; }

    std::size_t shard_bytes_;
    std::array<Shard, kShards> shards_;
};

}  // namespace sluice::tokens
