// Remembers the ids of short splits: the words of a language come again and again.
//
// Two tables of fixed size, without locks. Readers copy an entry and look whether its version moved
// meanwhile; a writer that finds an entry being written leaves it. Whoever comes last to a full
// bucket replaces, so a flood of words costs hits and nothing else.
//
// Threads: any, at once.
// Errors:  none; a word that does not fit an entry is not remembered.
// Limits:  exactly the bytes given to the constructor, rounded down to powers of two; 0 turns it
// off.
#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/tokens/huge_vector.hpp"
#include "core/tokens/token_id.hpp"

namespace sluice::tokens {

namespace detail {
// By length 0..16: which bytes of a word's first eight (from = 0) or next eight (8) are its own, as
// they lie in a register of a little-endian machine.
constexpr std::array<std::uint64_t, 17> word_masks(std::size_t from) {
    static_assert(std::endian::native == std::endian::little);
    std::array<std::uint64_t, 17> table{};
    for (std::size_t length = 0; length < table.size(); ++length) {
        for (std::size_t i = 0; i < 8; ++i) {
            table[length] |= from + i < length ? std::uint64_t{0xFF} << (8 * i) : 0;
        }
    }
    return table;
}
inline constexpr auto kLowMask = word_masks(0);
inline constexpr auto kHighMask = word_masks(8);
}  // namespace detail

class WordCache {
public:
    // A word of up to kSmallBytes bytes in two registers, zeros after its end.
    static constexpr std::size_t kSmallBytes = 16;
    static constexpr std::size_t kSmallIds = 3;
    static constexpr std::size_t kLargeBytes = 64;
    static constexpr std::size_t kLargeIds = 14;
    // Small entries keep ids in 21 bits.
    static constexpr TokenId kMaxSmallId = (TokenId{1} << 21U) - 1;

    struct SmallKey {
        std::uint64_t low;
        std::uint64_t high;
        std::uint32_t length;
    };

    explicit WordCache(std::size_t bytes);
    ~WordCache();
    WordCache(const WordCache&) = delete;
    WordCache& operator=(const WordCache&) = delete;

    // The key of the word at `p`; `readable` bytes may be read from there.
    static SmallKey small_key(const char* p, std::uint32_t length, std::size_t readable) noexcept {
        SmallKey key{0, 0, length};
        if (readable >= kSmallBytes) {
            std::memcpy(&key.low, p, 8);
            std::memcpy(&key.high, p + 8, 8);
            key.low &= detail::kLowMask[length];
            key.high &= detail::kHighMask[length];
        } else {
            std::array<char, kSmallBytes> padded{};
            std::memcpy(padded.data(), p, length);
            std::memcpy(&key.low, padded.data(), 8);
            std::memcpy(&key.high, padded.data() + 8, 8);
        }
        return key;
    }

    static std::uint64_t hash_of(const SmallKey& key) noexcept {
        // The halves of a 128-bit product, mixed; the constants keep a zero half from erasing all.
        __extension__ typedef unsigned __int128 Wide;
        const Wide product = static_cast<Wide>(key.low ^ 0x9E3779B97F4A7C15U) *
                             (key.high ^ 0xD6E8FEB86659FD93U ^ key.length);
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
    }
    static std::uint64_t hash_of(std::string_view word) noexcept;

    // Brings the place of a word near, some words before it is asked for.
    void prefetch_small(std::uint64_t hash) const noexcept {
        __builtin_prefetch(small_.data() + small_index(hash));
    }
    void prefetch_large(std::uint64_t hash) const noexcept {
        __builtin_prefetch(large_.data() + large_index(hash));
    }

    // Number of ids, 0 if not remembered. Writes kSmallIds (kLargeIds) places of `out` either way.
    std::size_t find(const SmallKey& key, std::uint64_t hash, TokenId* out) const noexcept {
        const Small* const bucket = small_.data() + small_index(hash);
        for (const Small* entry = bucket; entry != bucket + kWays; ++entry) {
            const std::uint64_t state = entry->state.load(std::memory_order_acquire);
            const std::uint64_t low = entry->low.load(std::memory_order_acquire);
            const std::uint64_t high = entry->high.load(std::memory_order_acquire);
            const std::uint64_t ids = entry->ids.load(std::memory_order_acquire);
            const bool is_same = low == key.low && high == key.high &&
                                 length_of(state) == key.length && !is_being_written(state);
            if (is_same && entry->state.load(std::memory_order_relaxed) == state) {
                out[0] = static_cast<TokenId>(ids) & kMaxSmallId;
                out[1] = static_cast<TokenId>(ids >> 21U) & kMaxSmallId;
                out[2] = static_cast<TokenId>(ids >> 42U) & kMaxSmallId;
                return count_of(state);
            }
        }
        return 0;
    }
    std::size_t find(std::string_view word, std::uint64_t hash, TokenId* out) const noexcept;

    void put(const SmallKey& key, std::uint64_t hash, const TokenId* ids,
             std::size_t count) noexcept;
    void put(std::string_view word, std::uint64_t hash, const TokenId* ids,
             std::size_t count) noexcept;
    // Remembers a word of one token if there is a free place, so the cache starts with the words of
    // the vocabulary itself.
    void put_if_free(std::string_view word, TokenId id) noexcept;

    std::size_t bytes() const noexcept;
    // Entries in use; walks the tables.
    std::size_t entries() const noexcept;

private:
    using Word = std::atomic<std::uint64_t>;
    // Bits 0..31 version, odd while written; 32..39 length; 40..47 number of ids. 0 is empty.
    struct alignas(32) Small {
        Word state;
        Word low;
        Word high;
        Word ids;
    };
    struct alignas(128) Large {
        Word state;
        std::array<Word, kLargeBytes / 8> text;
        std::array<Word, kLargeIds / 2> ids;
    };
    static constexpr std::size_t kWays = 2;  // entries of one cache line

    static constexpr std::size_t length_of(std::uint64_t state) noexcept {
        return state >> 32U & 0xFFU;
    }
    static constexpr std::size_t count_of(std::uint64_t state) noexcept {
        return state >> 40U & 0xFFU;
    }
    static constexpr bool is_being_written(std::uint64_t state) noexcept {
        return (state & 1U) != 0;
    }
    std::size_t small_index(std::uint64_t hash) const noexcept {
        return hash & (small_count_ - kWays);
    }
    std::size_t large_index(std::uint64_t hash) const noexcept { return hash & (large_count_ - 1); }

    std::size_t small_count_;
    std::size_t large_count_;
    HugeVector<Small> small_;
    HugeVector<Large> large_;
};

}  // namespace sluice::tokens
