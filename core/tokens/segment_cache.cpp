#include "core/tokens/segment_cache.hpp"

#include <xxhash.h>

namespace sluice::tokens {
namespace {

// List node, map node, bucket, control block and allocator rounding, about.
constexpr std::size_t kOverheadBytes = 208;

}  // namespace

std::size_t SegmentCache::Entry::cost() const noexcept {
    return kOverheadBytes + sizeof(Entry) + text.capacity() + ids.capacity() * sizeof(TokenId);
}

std::uint64_t SegmentCache::key_of(std::string_view text, std::uint64_t salt) noexcept {
    return XXH3_64bits_withSeed(text.data(), text.size(), salt);
}

bool SegmentCache::accepts(std::size_t text_bytes) const noexcept {
    // With as many ids as bytes it could cost five times that; most texts have a quarter.
    return text_bytes + kOverheadBytes + sizeof(Entry) <= shard_bytes_ / 4;
}

SegmentCache::Ids SegmentCache::find(std::uint64_t key, std::string_view text, std::uint64_t salt) {
    std::shared_ptr<const Entry> entry;
    {
        Shard& shard = shard_of(key);
        const std::lock_guard lock(shard.mu);
        const auto found = shard.where.find(key);
        if (found == shard.where.end()) {
            return nullptr;
        }
        shard.order.splice(shard.order.begin(), shard.order, found->second);
        entry = *found->second;
    }
    if (entry->salt != salt || entry->text != text) {
        return nullptr;
    }
    return {entry, &entry->ids};
}

void SegmentCache::put(std::uint64_t key, std::string_view text, std::uint64_t salt,
                       const TokenId* ids, std::size_t count) {
    const auto entry = std::make_shared<const Entry>(
        Entry{key, salt, std::string(text), std::vector<TokenId>(ids, ids + count)});
    const std::size_t cost = entry->cost();
    if (cost > shard_bytes_ / 2) {
        return;
    }
    Order dropped;  // freed after the lock
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mu);
    const auto drop = [&](Order::iterator it) {
        shard.bytes -= (*it)->cost();
        shard.where.erase((*it)->key);
        dropped.splice(dropped.begin(), shard.order, it);
    };
    if (const auto found = shard.where.find(key); found != shard.where.end()) {
        drop(found->second);
    }
    while (shard.bytes + cost > shard_bytes_ && !shard.order.empty()) {
        drop(std::prev(shard.order.end()));
    }
    shard.order.push_front(entry);
    shard.where.emplace(key, shard.order.begin());
    shard.bytes += cost;
}

SegmentCache::Use SegmentCache::use() const {
    Use total;
    for (const Shard& shard : shards_) {
        const std::lock_guard lock(shard.mu);
        total.entries += shard.order.size();
        total.bytes += shard.bytes;
    }
    return total;
}

}  // namespace sluice::tokens
