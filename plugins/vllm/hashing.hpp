// vLLM's own block hashes: digest = H(ENC((parent, tokens, extra))), block after block.
//
// Used to attest a rule's declarations against what an engine publishes, and for engines and tools
// that have no token ids. Routing keys are the gateway's own and do not need this.
//
// Threads: any; no state.
// Errors:  none_hash() is empty where the engine draws a random one.
// Units:   a digest is big-endian; its 64-bit form is its last eight bytes.
// Source:  vLLM 0.9.0 to 0.32.0, core/kv_cache_utils; tests/vectors/vllm_block_hashes.jsonl.
// Limits:  blocks of up to about 13,000 ids under pickle: its frames split at 64 KiB beyond that,
//          and hash_chain() answers nothing there.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/vllm/events.hpp"

namespace sluice::vllm {

enum class Algorithm { Sha256Cbor, XxhashCbor, Sha256, Xxhash, Sha256Cbor64 };

std::optional<Algorithm> algorithm_named(std::string_view name) noexcept;
std::string_view name_of(Algorithm algorithm) noexcept;

// The seed text of engines from 0.29 on when PYTHONHASHSEED is not set (sha256 forms only).
inline constexpr std::string_view kUnsetSeed = "vllm-none-hash";

// A whole digest: 32, 16 or 8 bytes. 0.9 to 0.10.1 chained integers instead of bytes; what is
// hashed then is the number.
struct Digest {
    std::string bytes;
    std::uint64_t folded() const noexcept;
};

struct HashRule {
    Algorithm algorithm = Algorithm::Sha256;
    bool integer_parent = false;  // 0.9 to 0.10.1
};

// The root of every chain. `seed` empty: PYTHONHASHSEED is not set.
std::optional<Digest> none_hash(const HashRule& rule, const std::optional<std::string>& seed);

// One digest per full block. `keys` empty, or one entry per block (an empty entry = nil). Ids are
// 32 bits wide in events; the wider form exists because the engine hashes any integer.
std::vector<Digest> hash_chain(const HashRule& rule, const Digest& parent,
                               std::span<const std::uint32_t> tokens, std::uint32_t block_tokens,
                               std::span<const BlockKeys> keys);
std::vector<Digest> hash_chain(const HashRule& rule, const Digest& parent,
                               std::span<const std::uint64_t> tokens, std::uint32_t block_tokens,
                               std::span<const BlockKeys> keys);

// The extra keys of a plain text prompt, as hashed: bare up to 0.30, tagged from 0.31.
enum class KeyForm { Bare, Tagged };
struct Identity {
    std::string lora, lora_path, salt;  // empty = none
};
std::vector<BlockKeys> text_keys(KeyForm form, const Identity& who, std::size_t blocks);

}  // namespace sluice::vllm
