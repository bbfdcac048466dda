#include "tests/sim/trtllm/tree_cache.hpp"

#include <algorithm>

namespace sluice::sim::trtllm {
namespace {

std::size_t blocks_for(std::size_t tokens, std::size_t size) {
    return (tokens + size - 1) / size;
}

}  // namespace

TreeCache::TreeCache(const CacheOptions& options, EventRing& ring,
                     std::optional<std::uint32_t> rank)
    : options_(options),
      keyer_(options.manager, options.algorithm),
      log_(ring, {options.era, options.manager, options.algorithm, rank}) {
    for (const PoolName& name : options_.pools) {
        pools_.emplace_back(name, options_.blocks, options_.host_blocks, log_);
        if (options_.reuses_blocks) {
            // Seen only after the first iteration, which is when the log is flushed first.
            log_.created(name, options_.blocks, options_.host_blocks);
        }
    }
}

TreeCache::Blocks& TreeCache::blocks_of(Sequence& s) const {
    if (s.holding == nullptr) {
        auto fresh = std::make_unique<Blocks>();
        fresh->pools.resize(pools_.size());
        s.holding = std::move(fresh);
    }
    return static_cast<Blocks&>(*s.holding);
}

Scope TreeCache::scope_of(const Sequence& s) const {
    Scope out;
    if (s.request.lora != nullptr) {
        out.lora_task_id = static_cast<std::uint64_t>(s.request.lora->id);
    }
    if (s.request.salt) {
        const bool by_library =
            options_.manager == Manager::V1 && tells_cache_contract(options_.era);
        out.salt_id = salt_id(*s.request.salt,
                              by_library ? SaltDerivation::LibraryHash : SaltDerivation::Sha256);
    }
    return out;
}

std::vector<Element> TreeCache::elements(const Sequence& s, std::size_t first,
                                         std::size_t end) const {
    std::vector<Element> out(s.tokens.begin() + static_cast<std::ptrdiff_t>(first),
                             s.tokens.begin() + static_cast<std::ptrdiff_t>(end));
    for (const MediaItem& item : s.request.media) {
        if (options_.manager == Manager::V2 && item.start >= first && item.start < end) {
            out[item.start - first] = item.digest;
        }
    }
    return out;
}

std::vector<MmKey> TreeCache::mm_keys(const Sequence& s, std::size_t first, std::size_t end) const {
    std::vector<MmKey> out;
    for (const MediaItem& item : s.request.media) {
        if (item.start < end && item.start + item.length > first) {
            out.push_back({item.digest, first > item.start ? first - item.start : 0});
        }
    }
    return out;
}

BlockKey TreeCache::key(const Sequence& s, const BlockKey& parent, std::size_t first,
                        std::size_t end) const {
    return keyer_.next(
        parent, elements(s, first, end), scope_of(s),
        options_.manager == Manager::V1 ? mm_keys(s, first, end) : std::vector<MmKey>());
}

BlockKey TreeCache::key_before(Sequence& s, std::size_t block) const {
    return block == 0 ? keyer_.root(scope_of(s)) : blocks_of(s).keys[block - 1];
}

void TreeCache::extend_keys(Sequence& s, std::size_t full) const {
    Blocks& b = blocks_of(s);
    const std::size_t size = options_.tokens_per_block;
    while (b.keys.size() < full) {
        const std::size_t i = b.keys.size();
        b.keys.push_back(key(s, key_before(s, i), i * size, (i + 1) * size));
    }
}

// The stored blocks a request can use: the last token is never taken from the cache.
std::vector<Node*> TreeCache::lookup(Sequence& s, const BlockTree& pool) const {
    std::vector<Node*> hits;
    if (!options_.reuses_blocks) {
        return hits;
    }
    const std::size_t most = (s.size() - 1) / options_.tokens_per_block;
    extend_keys(s, most);
    while (hits.size() < most) {
        Node* n = pool.find(keyer_.identity(blocks_of(s).keys[hits.size()]));
        if (n == nullptr) {
            break;
        }
        hits.push_back(n);
    }
    return hits;
}

// What lies in the leading part of a block that begins as the prompt goes on.
BlockContent TreeCache::partial_hit(const Sequence& s, const std::vector<Node*>& hits,
                                    std::size_t& length) const {
    length = 0;
    const std::size_t first = hits.size() * options_.tokens_per_block;
    const std::size_t end = std::min<std::size_t>(first + options_.tokens_per_block, s.size() - 1);
    if (!options_.reuses_blocks || !options_.reuses_partial || pools_.size() > 1 || end <= first) {
        return {};
    }
    const auto [node, same] =
        pools_.front().closest(hits.empty() ? nullptr : hits.back(), elements(s, first, end));
    length = same;
    if (node == nullptr || node->content.empty()) {
        return {};
    }
    return {node->content.begin(), node->content.begin() + static_cast<std::ptrdiff_t>(same)};
}

std::optional<PrefixCache::Admission> TreeCache::admit(Sequence& s, std::uint32_t budget) {
    std::vector<std::vector<Node*>> hits;
    std::size_t matched = s.size();
    for (const BlockTree& pool : pools_) {
        hits.push_back(lookup(s, pool));
        matched = std::min(matched, hits.back().size());
    }
    for (auto& list : hits) {
        list.resize(matched);  // what one pool has lost is of no use in the others
    }
    const std::size_t size = options_.tokens_per_block;
    const BlockContent* const sent = received(s);
    std::size_t partial = 0;
    const BlockContent begun = partial_hit(s, hits.front(), partial);
    // What was received is there to the last token; nothing is left to compute.
    const auto cached =
        sent != nullptr ? s.size() : static_cast<std::uint32_t>(matched * size + partial);
    const std::uint32_t tokens = std::min(s.size() - cached, budget);
    const std::size_t need = blocks_for(cached + tokens, size) - matched;
    for (std::size_t i = 0; i < pools_.size(); ++i) {
        if (need + pools_[i].cost(hits[i]) > pools_[i].available()) {
            return std::nullopt;
        }
    }
    Blocks& b = blocks_of(s);
    for (std::size_t i = 0; i < pools_.size(); ++i) {
        pools_[i].use(hits[i]);
        pools_[i].take(need);
        b.pools[i] = {std::move(hits[i]), need};
    }
    if (options_.keeps_content) {
        read_in(s, begun, sent);
        compute_upto(s, cached + tokens);
    }
    return Admission{cached, tokens};
}

bool TreeCache::grow(Sequence& s, std::uint32_t upto) {
    Blocks& b = blocks_of(s);
    const std::size_t all = blocks_for(upto, options_.tokens_per_block);
    const auto missing = [&](std::size_t i) {
        const std::size_t have = b.pools[i].chain.size() + b.pools[i].taken;
        return all > have ? all - have : 0;
    };
    for (std::size_t i = 0; i < pools_.size(); ++i) {
        if (missing(i) > pools_[i].available()) {
            return false;
        }
    }
    for (std::size_t i = 0; i < pools_.size(); ++i) {
        const std::size_t n = missing(i);
        pools_[i].take(n);
        b.pools[i].taken += n;
    }
    compute_upto(s, upto);
    return true;
}

void TreeCache::computed(Sequence& s, std::uint32_t upto) {
    const std::uint32_t prompt = static_cast<std::uint32_t>(s.request.prompt.size());
    const bool is_prompt_done = upto >= prompt;
    if (stores_early(options_.era)) {
        store(s, upto - 1, false);
    } else if (is_prompt_done) {
        store(s, prompt - 1, false);
    }
}

void TreeCache::release(Sequence& s) {
    Blocks& b = blocks_of(s);
    const bool is_whole = s.is_done && s.computed >= s.request.prompt.size();
    store(s, s.computed, is_whole);
    ++now_;
    for (std::size_t i = 0; i < pools_.size(); ++i) {
        pools_[i].drop(b.pools[i].chain, now_);
        pools_[i].give_back(b.pools[i].taken);
        b.pools[i] = {};
    }
    b.content.clear();
    log_.flush();
}

// Makes the blocks of the first `upto` tokens findable.
void TreeCache::store(Sequence& s, std::size_t upto, bool has_partial) {
    if (!options_.reuses_blocks) {
        return;
    }
    Blocks& b = blocks_of(s);
    extend_keys(s, upto / options_.tokens_per_block);
    for (std::size_t i = 0; i < pools_.size(); ++i) {
        store_in(s, pools_[i], b.pools[i], upto, has_partial);
    }
}

void TreeCache::store_in(Sequence& s, BlockTree& pool, Held& held, std::size_t upto,
                         bool has_partial) {
    const std::size_t size = options_.tokens_per_block;
    std::vector<StoredBlock> fresh;
    std::string parent;
    const auto report = [&] {
        if (!fresh.empty()) {
            log_.stored(pool.name(), parent, std::exchange(fresh, {}), s.request.salt);
        }
    };
    for (std::size_t i = held.chain.size(); held.taken > 0 && i * size < upto; ++i) {
        const std::size_t end = std::min((i + 1) * size, upto);
        const bool is_full = end == (i + 1) * size;
        if (!is_full && !has_partial) {
            break;
        }
        const BlockKey own =
            is_full ? blocks_of(s).keys[i] : key(s, key_before(s, i), i * size, end);
        Node* above = held.chain.empty() ? nullptr : held.chain.back();
        --held.taken;
        if (Node* same = pool.find(keyer_.identity(own))) {
            // Somebody else stored it first: theirs is kept and ours is not needed.
            report();
            pool.give_back(1);
            pool.use({same});
            held.chain.push_back(same);
            continue;
        }
        Node node;
        node.key = own;
        node.identity = keyer_.identity(own);
        node.wire = keyer_.wire(own);
        node.tokens = elements(s, i * size, end);
        node.is_full = is_full;
        if (options_.keeps_content) {
            const BlockContent& all = blocks_of(s).content;
            node.content.assign(all.begin() + static_cast<std::ptrdiff_t>(i * size),
                                all.begin() + static_cast<std::ptrdiff_t>(end));
        }
        node.is_told = !blocks_of(s).was_received || i * size >= s.request.prompt.size();
        if (fresh.empty()) {
            parent = above == nullptr ? "" : above->wire;
        }
        if (node.is_told) {
            fresh.push_back({node.wire, node.tokens, mm_keys(s, i * size, end)});
        }
        held.chain.push_back(pool.insert(above, std::move(node)));
    }
    report();
}

bool TreeCache::reset() {
    bool all = true;
    for (BlockTree& pool : pools_) {
        all = pool.reset() && all;
    }
    log_.flush();
    return all;
}

std::vector<std::pair<std::string, int>> TreeCache::stored() const {
    const auto it = std::max_element(
        pools_.begin(), pools_.end(),
        [](const auto& a, const auto& b) { return a.name().window < b.name().window; });
    return it->stored();
}

}  // namespace sluice::sim::trtllm
