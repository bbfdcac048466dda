// KV events as values, and their msgpack form.
//
// Threads: any; values.
// Source:  vLLM 0.17 (arrays of 9) and 0.32 (maps) as recorded: tests/vectors/vllm_kv_events.jsonl,
//          ev-live-*.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/sim/vllm/hash.hpp"

namespace sluice::sim::vllm {

enum class EventEncoding { Array, Map };  // 0.17, 0.32
enum class HashForm { Integer, Bytes };

struct BlockStored {
    std::vector<Digest> hashes;
    std::optional<Digest> parent;
    std::vector<TokenId> tokens;
    std::uint32_t block_size = 0;
    std::optional<std::int64_t> lora_id;
    std::string lora_name;                             // empty: none
    std::vector<std::vector<std::string>> extra_keys;  // one a hash, as on the wire; empty: nil
    std::string session_id;                            // empty: none
};
struct BlockRemoved {
    Digest hash;
};
struct AllBlocksCleared {};
using KvEvent = std::variant<BlockStored, BlockRemoved, AllBlocksCleared>;

// The third frame: [ts, events, rank].
std::string encode_batch(double timestamp_s, const std::vector<KvEvent>& events, int rank,
                         EventEncoding encoding, HashForm form);

}  // namespace sluice::sim::vllm
