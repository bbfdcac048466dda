// The holders of one block, as one 64-bit word beside its key.
//
// Up to three holders are in the word itself; more are in a HolderSet it points to, one chunk of
// bit planes for every 64-wide stripe of holder ids that occurs.
//
//   0                     the slot was never used
//   ...01                 inline: three fields of 20 bits, each id << 4 | bits, bits 0 = vacant
//   ...10                 pointer to a HolderSet
//   ...11                 nobody any more; the rest says since when (BlockTable)
//
// Threads: one writer; readers under a ReadGuard. A word changes as a whole. Planes of a set change
//          in place, one bit at a time; a set grows by being replaced.
// Limits:  65,536 holder ids.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/kv/epoch.hpp"

namespace sluice::kv {

// What a holder has of a block. "Fresh" = stored after the last report of doubt.
enum HolderBits : unsigned { kAny = 1, kGpu = 2, kFreshAny = 4, kFreshGpu = 8 };
inline constexpr unsigned kPlanes = 4;
inline constexpr std::uint32_t kMaxHolders = 65'536;

using Word = std::uint64_t;
inline constexpr Word kNeverUsed = 0;
inline constexpr Word kNobody = 1;  // inline, all fields vacant: only while a word is made
inline constexpr unsigned kInlineHolders = 3;

struct Planes {
    std::array<std::uint64_t, kPlanes> bits{};  // by bit number of HolderBits
};

struct SetChunk {
    std::uint32_t stripe;
    std::atomic<std::uint64_t> plane[kPlanes];
};

class HolderSet {
public:
    std::uint32_t size() const noexcept { return chunks_; }
    // Sorted by stripe.
    const SetChunk* chunk(std::uint32_t i) const noexcept { return first() + i; }
    std::uint32_t holders() const noexcept { return holders_; }  // writer only
    static std::size_t bytes(std::uint32_t chunks) noexcept {
        return sizeof(HolderSet) + chunks * sizeof(SetChunk);
    }
    std::size_t bytes() const noexcept { return bytes(chunks_); }

private:
    friend class HolderWords;
    static HolderSet* make(std::uint32_t chunks);
    const SetChunk* first() const noexcept { return reinterpret_cast<const SetChunk*>(this + 1); }
    SetChunk* first() noexcept { return reinterpret_cast<SetChunk*>(this + 1); }

    std::uint32_t chunks_ = 0;
    std::uint32_t holders_ = 0;
};

inline bool is_set(Word w) noexcept {
    return (w & 3U) == 2;
}
inline const HolderSet* set_of(Word w) noexcept {
    return reinterpret_cast<const HolderSet*>(w & ~Word{3});
}
inline std::uint32_t inline_field(Word w, unsigned i) noexcept {
    return static_cast<std::uint32_t>(w >> (2 + 20 * i)) & 0xFFFFFU;
}
inline bool is_left(Word w) noexcept {
    return (w & 3U) == 3;
}
inline Word left_word(std::uint64_t since) noexcept {
    return since << 2 | 3U;
}
inline std::uint64_t left_since(Word w) noexcept {
    return w >> 2;
}
// True when somebody holds the block.
inline bool is_held(Word w) noexcept {
    return w > kNobody && !is_left(w);
}

// The writer's edits of words.
class HolderWords {
public:
    explicit HolderWords(Retired& retired) : retired_(&retired) {}

    // Gives `holder` these bits (0 = takes it out) and publishes the result in `word`, or `left`
    // when nobody is left; returns the bits it had.
    unsigned set(std::atomic<Word>& word, std::uint32_t holder, unsigned bits, Word left);
    // Frees what a word points to, when no reader is left.
    static void destroy(Word w);
    std::size_t set_bytes() const noexcept { return set_bytes_.load(std::memory_order_relaxed); }

private:
    unsigned set_in(std::atomic<Word>& word, HolderSet* set, std::uint32_t holder, unsigned bits);
    Word spill(Word full, std::uint32_t holder, unsigned bits);
    HolderSet* with_stripe(const HolderSet& old, std::uint32_t stripe);
    void retire(const HolderSet* set);
    void account(std::ptrdiff_t bytes) noexcept;

    Retired* retired_;
    std::atomic<std::size_t> set_bytes_{0};
};

}  // namespace sluice::kv
