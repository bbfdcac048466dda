#include "tests/sim/vllm/block_cache.hpp"

#include <algorithm>

namespace sluice::sim::vllm {
namespace {

// The salt of the first block; empty: none.
std::string salt_of(const Sequence& s) {
    return s.request.salt.value_or("");
}

}  // namespace

BlockCache::Blocks& BlockCache::blocks_of(Sequence& s) {
    if (s.holding == nullptr) {
        s.holding = std::make_unique<Blocks>();
    }
    return static_cast<Blocks&>(*s.holding);
}

bool BlockCache::grow(Sequence& s, std::uint32_t upto) {
    Blocks& b = blocks_of(s);
    const std::size_t need = (upto + options_.block_size - 1) / options_.block_size;
    if (need > b.ids.size()) {
        if (need - b.ids.size() > pool_.free()) {
            return false;
        }
        const auto fresh = pool_.take(need - b.ids.size());
        b.ids.insert(b.ids.end(), fresh.begin(), fresh.end());
    }
    cache_full_blocks(s, upto);
    compute_upto(s, upto);
    return true;
}

// The leading blocks that are in the cache already. The last token is always computed, so a prompt
// of whole blocks never finds its last one.
std::vector<BlockId> BlockCache::lookup(Sequence& s) {
    std::vector<BlockId> hits;
    if (!options_.caches_prefixes || s.request.skips_cache) {
        return hits;
    }
    extend_hashes(s);
    const std::size_t most = (s.size() - 1) / options_.block_size;
    while (hits.size() < most) {
        const auto id = pool_.find(blocks_of(s).hashes[hits.size()]);
        if (!id) {
            break;
        }
        hits.push_back(*id);
    }
    return hits;
}

std::optional<PrefixCache::Admission> BlockCache::admit(Sequence& s, std::uint32_t budget) {
    if (Blocks& b = blocks_of(s); b.is_filled) {
        b.is_filled = false;
        const std::uint32_t tokens = std::min(s.size() - s.computed, budget);
        if (!grow(s, s.computed + tokens)) {
            return std::nullopt;
        }
        return Admission{s.computed, tokens};
    }
    const auto hits = lookup(s);
    const auto cached = static_cast<std::uint32_t>(hits.size()) * options_.block_size;
    const std::uint32_t tokens = std::min(s.size() - cached, budget);
    const std::size_t need =
        (cached + tokens + options_.block_size - 1) / options_.block_size - hits.size();
    if (needed_for(hits, need) > pool_.free()) {
        return std::nullopt;
    }
    take_up(s, hits);
    read_upto(s, cached);
    if (s.request.repeats_hits && !hits.empty()) {
        add_stored(s, 0, hits.size());
    }
    (void)grow(s, cached + tokens);  // it fits: counted above
    return Admission{cached, tokens};
}

void BlockCache::release(Sequence& s) {
    Blocks& b = blocks_of(s);
    pool_.release(b.ids);
    b.ids.clear();
    b.cached_blocks = 0;
    b.is_filled = false;
}

// Blocks that leave the queue of free ones for this: fresh ones and hits nobody uses now.
std::size_t BlockCache::needed_for(const std::vector<BlockId>& hits, std::size_t fresh) const {
    const auto revived =
        std::count_if(hits.begin(), hits.end(), [this](BlockId id) { return pool_.is_free(id); });
    return fresh + static_cast<std::size_t>(revived);
}

void BlockCache::take_up(Sequence& s, const std::vector<BlockId>& hits) {
    for (const BlockId id : hits) {
        pool_.touch(id);
    }
    Blocks& b = blocks_of(s);
    b.ids = hits;
    b.cached_blocks = hits.size();
    b.readout = Readout(options_.seed);
    b.read = 0;
}

void BlockCache::publish() {
    auto events = pool_.take_events();
    if (publisher_ != nullptr && !events.empty()) {
        publisher_->publish(std::move(events));
    }
}

double BlockCache::usage() const {
    return 1.0 - static_cast<double>(pool_.free()) / static_cast<double>(pool_.usable());
}

void BlockCache::extend_hashes(Sequence& s) const {
    Blocks& b = blocks_of(s);
    const std::size_t full = s.tokens.size() / options_.block_size;
    const std::string salt = salt_of(s);
    while (b.hashes.size() < full) {
        const std::size_t i = b.hashes.size();
        std::vector<ExtraKey> extra;
        if (const Lora* lora = s.request.lora) {
            extra.push_back(options_.tags_extra_keys
                                ? ExtraKey{{"lora", lora->name, lora->path}, true}
                                : ExtraKey{{lora->name}, false});
        }
        if (i == 0 && !salt.empty()) {
            extra.push_back(options_.tags_extra_keys ? ExtraKey{{"cache_salt", salt}, true}
                                                     : ExtraKey{{salt}, false});
        }
        const std::span<const TokenId> tokens =
            std::span(s.tokens).subspan(i * options_.block_size, options_.block_size);
        b.hashes.push_back(hash_block(
            options_.algorithm, i == 0 ? options_.none_hash : b.hashes[i - 1], tokens, extra));
    }
}

void BlockCache::cache_full_blocks(Sequence& s, std::uint32_t upto) {
    Blocks& b = blocks_of(s);
    if (!options_.caches_prefixes) {
        return;
    }
    const std::size_t full = std::min<std::size_t>(upto, s.size()) / options_.block_size;
    if (full <= b.cached_blocks) {
        return;
    }
    extend_hashes(s);
    for (std::size_t i = b.cached_blocks; i < full; ++i) {
        pool_.cache(b.ids[i], b.hashes[i]);
    }
    add_stored(s, b.cached_blocks, full);
    b.cached_blocks = full;
}

void BlockCache::add_stored(Sequence& s, std::size_t first, std::size_t end) {
    const Blocks& b = blocks_of(s);
    BlockStored e;
    const auto at = [&b](std::size_t block) {
        return b.hashes.begin() + static_cast<std::ptrdiff_t>(block);
    };
    e.hashes.assign(at(first), at(end));
    if (first > 0) {
        e.parent = b.hashes[first - 1];
    }
    const std::size_t size = options_.block_size;
    const auto token = [&](std::size_t block) {
        return s.tokens.begin() + static_cast<std::ptrdiff_t>(block * size);
    };
    e.tokens.assign(token(first), token(end));
    e.block_size = options_.block_size;
    const std::string salt = salt_of(s);
    for (std::size_t i = first; i < end; ++i) {
        auto& keys = e.extra_keys.emplace_back();
        if (s.request.lora != nullptr) {
            keys.push_back(s.request.lora->name);
        }
        if (i == 0 && !salt.empty()) {
            keys.push_back(salt);
        }
    }
    if (s.request.lora != nullptr) {
        e.lora_id = s.request.lora->id;
        e.lora_name = s.request.lora->name;
    }
    e.session_id = s.request.session_id;
    pool_.add_event(std::move(e));
}

}  // namespace sluice::sim::vllm
