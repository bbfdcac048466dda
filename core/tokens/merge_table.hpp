// The merges of a BPE model: pair of tokens to rank and joined token.
//
// Most pairs that are asked about do not merge, and the table is larger than a core's cache, so a
// small filter that fits the cache answers for most of them.
//
// Threads: build on one, then read on any.
// Limits:  48 bytes a merge at most, plus 4 bytes of filter and half a megabyte.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/tokens/huge_vector.hpp"
#include "core/tokens/token_id.hpp"

namespace sluice::tokens {

inline constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

struct Merge {
    std::uint32_t rank = kNoRank;
    TokenId joined = kNoToken;
};

class MergeTable {
public:
    // Room for exactly so many merges.
    explicit MergeTable(std::size_t merges = 0);

    // Adds a merge. False if the pair is there already (the one before stays).
    bool add(TokenId left, TokenId right, Merge merge);

    // Rank kNoRank if the pair does not merge.
    Merge find(TokenId left, TokenId right) const noexcept {
        const std::uint64_t hash = hash_of(left, right);
        const std::uint64_t bits = filter_bits(hash);
        if ((filter_[hash >> filter_shift_] & bits) != bits) {
            return {};
        }
        return find_in_table(left, right, hash);
    }

    // As find, quicker where both are likely low ids: bytes, where words start.
    Merge find_low(TokenId left, TokenId right) const noexcept {
        return (left | right) < kLowIds ? low_[left * kLowIds + right] : find(left, right);
    }

private:
    static constexpr TokenId kLowIds = 256;

    struct Slot {
        TokenId left = kNoToken;
        TokenId right = kNoToken;
        Merge merge;
    };

    static std::uint64_t hash_of(TokenId left, TokenId right) noexcept {
        const std::uint64_t h = left * 0x9E3779B97F4A7C15U + right * 0xD6E8FEB86659FD93U;
        return h ^ h >> 32U;
    }
    static std::uint64_t filter_bits(std::uint64_t hash) noexcept {
        return std::uint64_t{1} << (hash & 63U) | std::uint64_t{1} << (hash >> 6U & 63U);
    }
    Merge find_in_table(TokenId left, TokenId right, std::uint64_t hash) const noexcept;

    HugeVector<Slot> slots_;            // open addressing, a power of two, at most 2/3 full
    HugeVector<std::uint64_t> filter_;  // a word a hash, two bits in it
    unsigned slot_shift_ = 0;
    unsigned filter_shift_ = 0;
    HugeVector<Merge> low_;  // of pairs of ids below kLowIds
};

}  // namespace sluice::tokens
