// The engine's block hashes of a whole prompt, from what a tool says of it.
//
// Threads: any; no state.
// Errors:  throws Failure: SLUICE_E_INVALID with the member's name where the description is wrong.
// Units:   64 bits a whole block: v2_sha256 gives the first eight bytes of its digests, big-endian.
// Source:  hashing.hpp; the members are those of tests/vectors/trtllm_block_hashes.jsonl.
// Limits:  the caller's tokens and text; kMaxExtras extra ids and media keys a prompt.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::trtllm {

inline constexpr std::size_t kMaxExtras = 1U << 20U;

// `params`, all optional: {"scheme": "v1_block_key", "v2_sha256" or "v2_sha256_64"; "manager": "v1"
// or "v2"; "lora_task_id" and "cache_salt_id": a number or its decimal text; "cache_salt" with
// "salt_derivation", where no id is given; "uses_extra_ids" with "token_extra_ids";
// "mm_keys_per_block": [[{"hash": 64 hex digits, "start_offset": n}]]; "prompt_token_ids": the
// prompt once more, where a content digest (64 hex digits) stands in place of a token}.
std::vector<std::uint64_t> block_hashes(std::string_view params,
                                        std::span<const std::uint32_t> tokens,
                                        std::uint32_t block_tokens, std::size_t max_blocks);

}  // namespace sluice::trtllm
