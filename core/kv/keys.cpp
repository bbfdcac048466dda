#include "core/kv/keys.hpp"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::kv {
namespace {

// Two halves and not one seeded hash: the token half does not wait for the parent, so the blocks
// of a prompt overlap in the pipeline, and XXH3 derives no secret per block above 240 bytes.
Key link(Key parent, std::uint64_t block) noexcept {
    const std::uint64_t pair[2] = {parent, block};
    return XXH3_64bits(pair, sizeof pair);
}

}  // namespace

Key root_key(std::string_view lora, std::string_view salt) noexcept {
    // Hashed apart, so that ("ab", "c") and ("a", "bc") differ; the tags keep an empty name from
    // looking like the other one.
    return link(XXH3_64bits_withSeed(lora.data(), lora.size(), 1),
                XXH3_64bits_withSeed(salt.data(), salt.size(), 2));
}

Key next_key(Key parent, std::span<const std::uint32_t> block) noexcept {
    return link(parent, XXH3_64bits(block.data(), block.size_bytes()));
}

std::size_t chain(Key parent, std::span<const std::uint32_t> tokens, std::uint32_t block_tokens,
                  std::vector<Key>& out, std::size_t max_blocks) {
    ChainCursor cursor(parent, tokens, block_tokens, max_blocks);
    const std::size_t before = out.size();
    out.resize(before + cursor.total());
    return cursor.next(std::span(out).subspan(before));
}

ChainCursor::ChainCursor(Key parent, std::span<const std::uint32_t> tokens,
                         std::uint32_t block_tokens, std::size_t max_blocks) noexcept
    : key_(parent),
      tokens_(tokens),
      block_tokens_(block_tokens),
      total_(block_tokens == 0 ? 0 : std::min(tokens.size() / block_tokens, max_blocks)) {}

std::size_t ChainCursor::next(std::span<Key> out) noexcept {
    const std::size_t n = std::min(out.size(), left());
    for (std::size_t i = 0; i < n; ++i) {
        key_ = next_key(key_, tokens_.subspan((done_ + i) * block_tokens_, block_tokens_));
        out[i] = key_;
    }
    done_ += n;
    return n;
}

}  // namespace sluice::kv
