// What one rank of an engine holds, by the engine's own hashes: key, copies, tiers, groups, doubt.
//
// Threads: one (the index's writer).
// Errors:  none; what is not known is said by the return value.
// Units:   20 bytes a block, 12 more for each tier beyond GPU and host or group beyond the first.
// Limits:  kMaxGroups groups, kMaxCopies copies a (tier, group, block). The number of records is
//          the owner's business: records(), evict.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/kv/compact_table.hpp"
#include "core/kv/keys.hpp"

namespace sluice::kv {

inline constexpr std::uint32_t kMaxGroups = 32;
inline constexpr unsigned kMaxCopies = 255;

// One block. Copies on GPU and in host memory of the first group are counted here.
class Block {
public:
    static Block make(std::uint64_t hash) noexcept;
    bool is_vacant() const noexcept { return state_ == 0; }
    std::uint64_t hash() const noexcept { return join(hash_lo_, hash_hi_); }
    // Meaningless when opaque.
    Key key() const noexcept { return join(key_lo_, key_hi_); }
    void set_key(Key key) noexcept;

    unsigned copies(unsigned where) const noexcept { return get(8 * where, 8); }  // 0 GPU, 1 host
    void set_copies(unsigned where, unsigned n) noexcept { put(8 * where, 8, n); }
    // Of the copies, those surely stored since doubt began; at most kMaxCertain are told.
    static constexpr unsigned kMaxCertain = 7;
    unsigned certain(unsigned where) const noexcept { return get(16 + 3 * where, 3); }
    void set_certain(unsigned where, unsigned n) noexcept {
        put(16 + 3 * where, 3, n < kMaxCertain ? n : kMaxCertain);
    }
    unsigned published() const noexcept { return get(22, 4); }  // HolderBits readers see
    void set_published(unsigned bits) noexcept { put(22, 4, bits); }
    static constexpr unsigned kGenerations = 8;
    unsigned generation() const noexcept { return get(26, 3); }
    void set_generation(unsigned g) noexcept { put(26, 3, g); }
    bool is_opaque() const noexcept { return get(29, 1) != 0; }
    void set_opaque(bool on) noexcept { put(29, 1, on ? 1 : 0); }
    bool has_extras() const noexcept { return get(30, 1) != 0; }
    void set_extras(bool on) noexcept { put(30, 1, on ? 1 : 0); }

private:
    static std::uint64_t join(std::uint32_t lo, std::uint32_t hi) noexcept {
        return std::uint64_t{hi} << 32 | lo;
    }
    unsigned get(unsigned at, unsigned width) const noexcept {
        return state_ >> at & ((1U << width) - 1);
    }
    void put(unsigned at, unsigned width, unsigned v) noexcept {
        state_ = (state_ & ~(((1U << width) - 1) << at)) | v << at;
    }
    // Halves, so that a block takes 20 bytes and not 24.
    std::uint32_t hash_lo_, hash_hi_, key_lo_, key_hi_;
    std::uint32_t state_;  // bit 31 = in use
};

// Copies of a block on another tier or in another group.
struct Extra {
    std::uint32_t hash_lo, hash_hi;
    std::uint8_t tier;  // 0 = vacant
    std::uint8_t group, copies, certain;
    bool is_vacant() const noexcept { return tier == 0; }
    std::uint64_t hash() const noexcept { return std::uint64_t{hash_hi} << 32 | hash_lo; }
};

class Inventory {
public:
    // The dense number of a cache group; a new one is added. Empty beyond kMaxGroups.
    std::optional<unsigned> group(std::uint32_t id);
    std::optional<unsigned> known_group(std::uint32_t id) const noexcept;
    std::size_t num_groups() const noexcept { return groups_.size(); }

    void prefetch(std::uint64_t hash) const noexcept { blocks_.prefetch(hash); }
    Block* find(std::uint64_t hash) noexcept { return blocks_.find(hash); }
    // `hash` is not held yet. The block has no copies.
    Block& add(std::uint64_t hash) { return blocks_.insert(Block::make(hash)); }
    void erase(Block& block);

    static bool is_extra(std::uint32_t tier, unsigned group) noexcept;
    // One more copy (`is_counted`) or just "there is one". False when kMaxCopies were reached.
    bool store(Block& block, std::uint32_t tier, unsigned group, bool is_counted);
    // One copy less, or none left there. False when there was none.
    bool remove(Block& block, std::uint32_t tier, unsigned group, bool is_counted);
    // Forgets a tier and group, each perhaps "all of them" (empty).
    void clear_copies(Block& block, std::optional<std::uint32_t> tier,
                      std::optional<unsigned> group);
    bool has_copies(const Block& block) const noexcept {
        return block.copies(0) != 0 || block.copies(1) != 0 || block.has_extras();
    }
    // The HolderBits that are true of a block: 0 = no request can match it.
    unsigned bits(const Block& block);

    bool in_doubt() const noexcept { return in_doubt_; }
    void set_doubt(bool on) noexcept { in_doubt_ = on; }
    // Makes nothing certain any more and calls f(block) for each block that was.
    template <class F>
    void end_certainty(F&& f);

    CompactTable<Block>& blocks() noexcept { return blocks_; }
    // What counts against the bound.
    std::size_t records() const noexcept { return blocks_.size() + extras_.size(); }
    std::size_t bytes() const noexcept {
        return blocks_.bytes() + extras_.bytes() + certain_.capacity() * sizeof(std::uint64_t);
    }
    // Becomes what `from` is.
    void copy(const Inventory& from);
    // Forgets everything, groups and doubt included.
    void clear() noexcept;

private:
    Extra* find_extra(std::uint64_t hash, std::uint32_t tier, unsigned group) noexcept;
    void became_certain(std::uint64_t hash);
    void drop_certainty(Block& block);
    void update_extras_flag(Block& block);
    unsigned bits_of_groups(const Block& block);

    CompactTable<Block> blocks_;
    CompactTable<Extra> extras_;
    std::vector<std::uint32_t> groups_;
    bool in_doubt_ = false;
    // Hashes with certain copies; when they are too many, all blocks are looked at instead.
    std::vector<std::uint64_t> certain_;
    bool is_certain_cut_ = false;
};

template <class F>
void Inventory::end_certainty(F&& f) {
    if (is_certain_cut_) {
        blocks_.for_each([&](Block& b) {
            drop_certainty(b);
            f(b);
        });
    } else {
        for (const std::uint64_t hash : certain_) {
            if (Block* b = blocks_.find(hash); b != nullptr) {
                drop_certainty(*b);
                f(*b);
            }
        }
    }
    certain_.clear();
    certain_.shrink_to_fit();
    is_certain_cut_ = false;
}

}  // namespace sluice::kv
