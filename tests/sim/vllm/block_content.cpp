// The half of BlockCache that knows what lies in the blocks, computed here or read elsewhere.
#include <algorithm>

#include "tests/sim/vllm/block_cache.hpp"

namespace sluice::sim::vllm {

std::optional<BlockCache::Reserved> BlockCache::would_reserve(Sequence& s, std::size_t most) {
    const std::size_t hits = lookup(s).size();
    Reserved out;
    out.cached = static_cast<std::uint32_t>(hits) * options_.block_size;
    out.missing = (s.size() + options_.block_size - 1) / options_.block_size - hits;
    return out.missing > most ? std::nullopt : std::optional(out);
}

bool BlockCache::reserve(Sequence& s) {
    const auto hits = lookup(s);
    const std::size_t all = (s.size() + options_.block_size - 1) / options_.block_size;
    const std::size_t fresh = all - hits.size();
    if (needed_for(hits, fresh) > pool_.free()) {
        return false;
    }
    take_up(s, hits);
    const auto taken = pool_.take(fresh);
    Blocks& b = blocks_of(s);
    b.ids.insert(b.ids.end(), taken.begin(), taken.end());
    return true;
}

void BlockCache::fill_reserved(Sequence& s, std::vector<BlockContent> blocks) {
    Blocks& b = blocks_of(s);
    const std::size_t local = b.ids.size() - b.cached_blocks;
    // Mooncake: the blocks come from the prompt's first on.
    const std::size_t skip = blocks.size() > local ? blocks.size() - local : 0;
    for (std::size_t i = 0; i < local && skip + i < blocks.size(); ++i) {
        content_[b.ids[b.cached_blocks + i]] = std::move(blocks[skip + i]);
    }
    const std::uint32_t computed = s.size() - 1;  // the last token is always computed
    cache_full_blocks(s, computed);
    read_upto(s, computed);
    b.is_filled = true;
}

std::optional<std::vector<BlockContent>> BlockCache::read(const std::vector<BlockId>& ids) const {
    std::vector<BlockContent> out;
    for (const BlockId id : ids) {
        if (id == 0 || id >= content_.size()) {
            return std::nullopt;
        }
        out.push_back(content_[id]);
        out.back().resize(options_.block_size);
    }
    return out;
}

// The model attends to the first `upto` tokens as they lie in the blocks.
void BlockCache::read_upto(Sequence& s, std::uint32_t upto) {
    Blocks& b = blocks_of(s);
    for (; options_.keeps_content && b.read < upto; ++b.read) {
        const BlockContent& block = content_[b.ids[b.read / options_.block_size]];
        b.readout.read(block.empty() ? Slot{} : block[b.read % options_.block_size]);
    }
}

// Written when planned, not when the step ends: an engine finishes a step whose client has left.
void BlockCache::compute_upto(Sequence& s, std::uint32_t upto) {
    if (!options_.keeps_content) {
        return;
    }
    Blocks& b = blocks_of(s);
    for (; b.read < upto; ++b.read) {
        BlockContent& block = content_[b.ids[b.read / options_.block_size]];
        block.resize(options_.block_size);
        block[b.read % options_.block_size] = b.readout.write(s.tokens[b.read]);
    }
    s.generator.set_state(b.readout.state());
}

}  // namespace sluice::sim::vllm
