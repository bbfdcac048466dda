// TensorRT-LLM's block hashes: v1 (64-bit mixing) and v2 (chained SHA-256).
//
// Written from the description of the formats alone and independent of the gateway's own code, so
// that each checks the other.
//
// Threads: any; pure functions over values.
// Units:   all arithmetic modulo 2^64, or 2^32 where 32 bits are named.
// Source:  TensorRT-LLM BlockKeyHasher (1.0 to 1.3) and the radix tree of the v2 cache manager;
//          tests/vectors/trtllm_block_hashes.jsonl.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/sim/engine/token.hpp"

namespace sluice::sim::trtllm {

using Digest = std::array<std::uint8_t, 32>;
// A token, or the digest of an item's content in its place (v2 manager).
using Element = std::variant<TokenId, Digest>;

struct MmKey {
    Digest hash{};
    std::uint64_t start_offset = 0;  // of the item's first token in this block, in the item
};

struct Scope {
    std::optional<std::uint64_t> lora_task_id;
    std::optional<std::uint64_t> salt_id;
};

// Precondition: no Digest among `tokens`.
std::uint64_t v1_hash(std::uint64_t parent, std::span<const Element> tokens, const Scope& scope,
                      std::span<const std::uint64_t> extra_ids, std::span<const MmKey> mm_keys);

Digest v2_root(const Scope& scope);
Digest v2_hash(const Digest& previous, std::span<const Element> tokens);
// The first 8 bytes, big-endian.
std::uint64_t high_64(const Digest& d) noexcept;
std::string hex(const Digest& d);

enum class SaltDerivation { Sha256, LibraryHash };
std::uint64_t salt_id(std::string_view salt, SaltDerivation how);
Digest sha256(std::string_view bytes);

}  // namespace sluice::sim::trtllm
