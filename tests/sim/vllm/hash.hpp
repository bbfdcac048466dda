// vLLM's block hashes: H(ENC((parent, tokens, extra))), chained over full blocks.
//
// Written from the description of the formats alone and independent of the gateway's own code, so
// that each checks the other.
//
// Threads: any; pure functions over values.
// Errors:  algorithm_from() is empty for names this engine does not offer.
// Source:  vLLM 0.32, kv_cache_utils.hash_block_tokens; CBOR RFC 8949 4.2, pickle protocol 5;
//          tests/vectors/vllm_block_hashes.jsonl.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/engine/token.hpp"

namespace sluice::sim::vllm {

using Digest = std::array<std::uint8_t, 32>;

enum class HashAlgorithm { Sha256, Sha256Cbor };

std::optional<HashAlgorithm> algorithm_from(std::string_view name) noexcept;

// One extra key: bare text (up to 0.30) or a tuple of texts (tagged, 0.31 and later).
struct ExtraKey {
    std::vector<std::string> parts;
    bool is_tuple = false;
};

// H(ENC(text)): the parent of every first block.
Digest none_hash(HashAlgorithm algorithm, std::string_view seed_text);
// No extra keys are encoded as nil, never as an empty tuple.
Digest hash_block(HashAlgorithm algorithm, const Digest& parent, std::span<const TokenId> tokens,
                  std::span<const ExtraKey> extra);
// The 64-bit form on the wire: the last 8 bytes, big-endian.
std::uint64_t low_64(const Digest& digest) noexcept;

}  // namespace sluice::sim::vllm
