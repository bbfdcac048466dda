// TensorRT-LLM's own block hashes, in every scheme an engine may announce.
//
// Routing keys are the gateway's own and need none of this. It serves to tell a base model's text
// block from one whose hash holds more (an adapter's, a hidden salt's), and tools.
//
// Threads: any; no state.
// Errors:  SHA-256 cannot fail short of memory; an empty optional where it did.
// Source:  the engine's block-key hasher (0.21 to 1.3) and radix tree (1.3);
//          tests/vectors/trtllm_block_hashes.jsonl.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "plugins/trtllm/events.hpp"

namespace sluice::trtllm {

// v1_block_key. A number for each block: 64 bits of arithmetic, no digest.
struct V1Scope {
    std::optional<std::uint64_t> lora_id;  // in every block
    std::optional<std::uint64_t> salt_id;  // only where the parent is 0
};
struct MmKey {
    Digest hash{};
    std::uint64_t start_offset = 0;
};
// `parent` 0: the first block. `extra_ids` empty, or one a token (zeros count, too).
std::uint64_t v1_block(std::uint64_t parent, std::span<const std::uint32_t> tokens,
                       const V1Scope& scope = {}, std::span<const std::uint64_t> extra_ids = {},
                       std::span<const MmKey> mm_keys = {}) noexcept;

// v2: a chain of SHA-256 digests, with the scope in its root.
using TokenOrDigest = std::variant<std::uint32_t, Digest>;
std::optional<Digest> v2_root(const V1Scope& scope);
std::optional<Digest> v2_block(const Digest& parent, std::span<const TokenOrDigest> tokens);
std::optional<Digest> v2_block(const Digest& parent, std::span<const std::uint32_t> tokens);
// The first eight bytes, big-endian.
std::uint64_t folded(const Digest& digest) noexcept;

// How a build makes a number of a request's cache_salt.
enum class SaltRule { Blake3, Sha256, LibstdcxxHash };
std::optional<SaltRule> salt_rule_named(std::string_view name) noexcept;
std::optional<std::uint64_t> salt_id(SaltRule rule, std::string_view salt);

}  // namespace sluice::trtllm
