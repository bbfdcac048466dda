// What readers of a published stream hold because of it, where that is not the engine's own count.
//
// vLLM's form counts: one stored and one removed event for each copy of a block, and clearing is
// for GPU only. Engines whose events are no counts (a block stored twice is one block), and blocks
// on other tiers, are kept here, so that each is told once and can be taken back by name.
//
// Threads: none of its own; one instance a stream, event thread.
// Errors:  none. Beyond the bound a block is not taken, and so not told.
// Limits:  max_blocks hashes, about 90 bytes each; kMaxPlaces tiers and groups a hash.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sluice::flow {

class EventLedger {
public:
    static constexpr std::size_t kMaxPlaces = 64;

    struct Place {
        std::uint32_t tier = 0;
        std::uint32_t group = 0;
        bool operator==(const Place&) const = default;
    };

    explicit EventLedger(std::uint64_t max_blocks) : max_blocks_(max_blocks) {}

    void set_max_blocks(std::uint64_t max_blocks) noexcept { max_blocks_ = max_blocks; }
    bool has(std::uint64_t hash) const { return blocks_.contains(hash); }
    bool has(std::uint64_t hash, Place place) const;
    // Whether the block was told as one that matches nothing; false for one that is not here.
    bool is_opaque(std::uint64_t hash) const;
    using Wanted = std::function<bool(Place)>;
    using Told = std::function<void(std::uint64_t hash, Place place, std::uint32_t copies)>;

    // One more copy there. False: no room.
    bool add(std::uint64_t hash, Place place, bool is_opaque);
    // One copy less; false when there was none.
    bool remove(std::uint64_t hash, Place place);
    // Forgets the block wherever it is, and tells of each place with its copies.
    void take(std::uint64_t hash, const Told& told);
    // Forgets what is in places that `wanted` names, and tells of each with its copies.
    void drop(const Wanted& wanted, const Told& told);
    std::size_t size() const noexcept { return blocks_.size(); }

private:
    struct Copies {
        Place place;
        std::uint32_t count = 0;
    };
    struct Block {
        bool is_opaque = false;
        Copies first;  // of count 0 only while `more` is empty, too: then the block goes
        std::vector<Copies> more;
    };
    static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
    // 0 is `first`, then `more` from 1.
    static std::size_t find(const Block& block, Place place);
    static Copies& at(Block& block, std::size_t i) {
        return i == 0 ? block.first : block.more[i - 1];
    }
    static void forget(Block& block, std::size_t i);

    std::uint64_t max_blocks_;
    std::unordered_map<std::uint64_t, Block> blocks_;
};

}  // namespace sluice::flow
