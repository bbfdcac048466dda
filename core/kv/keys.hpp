// Routing keys: a 64-bit XXH3 chain over token ids, block by block, rooted in (LoRA, salt).
//
// The same functions key the tokens of requests and the tokens of engine events, so the two sides
// agree by construction. Keys live only inside one process and may change between releases.
//
// Threads: any.
// Errors:  none; a block size of 0 has no blocks.
// Units:   tokens and blocks. Only full blocks have a key.
// Limits:  64 bits, not cryptographic: a crafted collision can misroute a request, nothing else.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::kv {

using Key = std::uint64_t;

inline constexpr std::size_t kAllBlocks = std::numeric_limits<std::size_t>::max();

// Where a chain begins. Empty LoRA = base model, empty salt = none.
Key root_key(std::string_view lora, std::string_view salt) noexcept;

// The key of one block under its parent (or root).
Key next_key(Key parent, std::span<const std::uint32_t> block) noexcept;

// Appends the keys of the full blocks of `tokens`, at most `max_blocks`; returns how many.
std::size_t chain(Key parent, std::span<const std::uint32_t> tokens, std::uint32_t block_tokens,
                  std::vector<Key>& out, std::size_t max_blocks = kAllBlocks);

// How many blocks of a prompt an engine can answer from cache: the last token is always computed.
// Source: vLLM scheduler, lookup up to n - 1 tokens (64 tokens -> 32 cached, 65 -> 64 at block 32,
//         seen live on 0.32).
constexpr std::size_t usable_blocks(std::size_t prompt_tokens,
                                    std::uint32_t block_tokens) noexcept {
    return prompt_tokens == 0 || block_tokens == 0 ? 0 : (prompt_tokens - 1) / block_tokens;
}

// Chains on demand, for long prompts of which perhaps only the start is needed. Borrows `tokens`.
class ChainCursor {
public:
    ChainCursor(Key parent, std::span<const std::uint32_t> tokens, std::uint32_t block_tokens,
                std::size_t max_blocks = kAllBlocks) noexcept;
    // Writes the next keys to `out`, as many as fit; 0 at the end.
    std::size_t next(std::span<Key> out) noexcept;
    // Blocks in all, and not yet given out.
    std::size_t total() const noexcept { return total_; }
    std::size_t left() const noexcept { return total_ - done_; }

private:
    Key key_;
    std::span<const std::uint32_t> tokens_;
    std::uint32_t block_tokens_;
    std::size_t total_;
    std::size_t done_ = 0;
};

}  // namespace sluice::kv
