#include "core/tokens/word_cache.hpp"

#include <xxhash.h>

#include <algorithm>

namespace sluice::tokens {
namespace {

// At least two entries, so that finding needs no special case.
std::size_t whole_power(std::size_t entries) noexcept {
    return std::bit_floor(std::max<std::size_t>(entries, 2));
}

std::uint64_t state_of(std::uint64_t version, std::size_t length, std::size_t count) noexcept {
    return (version & 0xFFFFFFFFU) | std::uint64_t{length} << 32U | std::uint64_t{count} << 40U;
}
// Takes the entry for writing; false if somebody has it. Stores that follow are releases, so who
// reads one of them also reads an odd (or later) version.
bool claim(std::atomic<std::uint64_t>& state, std::uint64_t& seen) noexcept {
    seen = state.load(std::memory_order_relaxed);
    return (seen & 1U) == 0 &&
           state.compare_exchange_strong(seen, seen | 1U, std::memory_order_acquire,
                                         std::memory_order_relaxed);
}

std::uint64_t eight_at(std::string_view word, std::size_t at) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, word.data() + at, std::min<std::size_t>(8, word.size() - at));
    return value;
}

}  // namespace

// Half of the room each.
WordCache::WordCache(std::size_t bytes)
    : small_count_(whole_power(bytes / 2 / sizeof(Small))),
      large_count_(whole_power(bytes / 2 / sizeof(Large))),
      small_(small_count_),
      large_(large_count_) {}

WordCache::~WordCache() = default;

std::uint64_t WordCache::hash_of(std::string_view word) noexcept {
    return XXH3_64bits(word.data(), word.size());
}

void WordCache::put(const SmallKey& key, std::uint64_t hash, const TokenId* ids,
                    std::size_t count) noexcept {
    if (count == 0 || count > kSmallIds || key.length == 0) {
        return;
    }
    std::uint64_t packed = 0;
    for (std::size_t i = count; i-- != 0;) {
        if (ids[i] > kMaxSmallId) {
            return;
        }
        packed = packed << 21U | ids[i];
    }
    Small* const bucket = small_.data() + small_index(hash);
    // The one that was written less often: a free place, or the two in turn.
    const auto version_of = [](const Small& entry) {
        return entry.state.load(std::memory_order_relaxed) & 0xFFFFFFFFU;
    };
    Small& entry = bucket[version_of(bucket[0]) > version_of(bucket[1]) ? 1 : 0];
    std::uint64_t seen = 0;
    if (!claim(entry.state, seen)) {
        return;
    }
    entry.low.store(key.low, std::memory_order_release);
    entry.high.store(key.high, std::memory_order_release);
    entry.ids.store(packed, std::memory_order_release);
    entry.state.store(state_of(seen + 2, key.length, count), std::memory_order_release);
}

std::size_t WordCache::find(std::string_view word, std::uint64_t hash,
                            TokenId* out) const noexcept {
    if (word.empty() || word.size() > kLargeBytes) {
        return 0;
    }
    const Large& entry = large_[large_index(hash)];
    const std::uint64_t state = entry.state.load(std::memory_order_acquire);
    if (length_of(state) != word.size() || is_being_written(state)) {
        return 0;
    }
    for (std::size_t i = 0; i * 8 < word.size(); ++i) {
        if (entry.text[i].load(std::memory_order_acquire) != eight_at(word, i * 8)) {
            return 0;
        }
    }
    const std::size_t count = count_of(state);
    for (std::size_t i = 0; i * 2 < count; ++i) {
        const std::uint64_t two = entry.ids[i].load(std::memory_order_acquire);
        out[2 * i] = static_cast<TokenId>(two);
        out[2 * i + 1] = static_cast<TokenId>(two >> 32U);
    }
    return entry.state.load(std::memory_order_relaxed) == state ? count : 0;
}

void WordCache::put(std::string_view word, std::uint64_t hash, const TokenId* ids,
                    std::size_t count) noexcept {
    if (count == 0 || count > kLargeIds || word.empty() || word.size() > kLargeBytes) {
        return;
    }
    Large& entry = large_[large_index(hash)];
    std::uint64_t seen = 0;
    if (!claim(entry.state, seen)) {
        return;
    }
    for (std::size_t i = 0; i * 8 < word.size(); ++i) {
        entry.text[i].store(eight_at(word, i * 8), std::memory_order_release);
    }
    for (std::size_t i = 0; i * 2 < count; ++i) {
        const std::uint64_t second = 2 * i + 1 < count ? ids[2 * i + 1] : 0;
        entry.ids[i].store(ids[2 * i] | second << 32U, std::memory_order_release);
    }
    entry.state.store(state_of(seen + 2, word.size(), count), std::memory_order_release);
}

void WordCache::put_if_free(std::string_view word, TokenId id) noexcept {
    if (word.size() <= kSmallBytes) {
        const SmallKey key =
            small_key(word.data(), static_cast<std::uint32_t>(word.size()), word.size());
        const std::uint64_t hash = hash_of(key);
        const Small* const bucket = small_.data() + small_index(hash);
        if (length_of(bucket[0].state) == 0 || length_of(bucket[1].state) == 0) {
            put(key, hash, &id, 1);
        }
    } else {
        const std::uint64_t hash = hash_of(word);
        if (length_of(large_[large_index(hash)].state) == 0) {
            put(word, hash, &id, 1);
        }
    }
}

std::size_t WordCache::bytes() const noexcept {
    return small_count_ * sizeof(Small) + large_count_ * sizeof(Large);
}

std::size_t WordCache::entries() const noexcept {
    std::size_t n = 0;
    for (std::size_t i = 0; i < small_count_; ++i) {
        n += length_of(small_[i].state.load(std::memory_order_relaxed)) != 0 ? 1 : 0;
    }
    for (std::size_t i = 0; i < large_count_; ++i) {
        n += length_of(large_[i].state.load(std::memory_order_relaxed)) != 0 ? 1 : 0;
    }
    return n;
}

}  // namespace sluice::tokens
