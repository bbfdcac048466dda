// The engine's block hashes of a whole prompt, from what a tool says of it.
//
// Threads: any; no state.
// Errors:  throws Failure: SLUICE_E_INVALID with the member's name where the description is wrong,
//          SLUICE_E_LIMIT where a block is too long to hash.
// Units:   64 bits a full block, the last eight bytes of its digest.
// Limits:  the caller's tokens and text; kMaxKeys extra keys, kMaxKeyDepth deep.
// Source:  hashing.hpp; the members are those of tests/vectors/vllm_block_hashes.jsonl.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plugins/vllm/settings.hpp"
#include "sluice/sdk.hpp"

namespace sluice::vllm {

// `in.params`, all optional: {"algorithm": absent = the rule's, else sha256; "seed": absent = the
// rule's, null = PYTHONHASHSEED is not set; "parent": hex of a digest to continue;
// "parent_is_integer"; "extra_keys": what is hashed beside the tokens, null or an entry a block,
// each null or a list of texts, integers, {"bytes_hex"} and lists (tuples) of them; where that is
// absent, "key_form" ("bare" or "tagged") and "lora_path" say how `in.lora` and `in.salt` are
// hashed; "token_ids": the prompt once more, where an id passes 32 bits}.
std::vector<std::uint64_t> block_hashes(const Settings& settings, const sluice_hash_input& in,
                                        std::size_t max_blocks);

}  // namespace sluice::vllm
