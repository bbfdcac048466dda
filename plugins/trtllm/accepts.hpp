// Which members a build of the engine accepts in the bodies of legs.
//
// Its request models refuse what they do not know, so nothing is sent on suspicion: the build's own
// schema says it, else its release, and a refusal that names a member is believed.
//
// Threads: any; values.
// Errors:  parse_schema() is empty where the text does not describe the hand-off.
// Limits:  the caller bounds the text.
// Source:  trtllm-serve 0.21 to 1.3 and later: GET /openapi.json (FastAPI), extra="forbid".
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::trtllm {

// Bits of a set.
enum Accepts : std::uint32_t {
    kTransferId = 1U << 0U,     // disaggregated_params.disagg_request_id
    kScheduleStyle = 1U << 1U,  // .schedule_style
    kContextUsage = 1U << 2U,   // .ctx_usage
    kFirstLogProbs = 1U << 3U,  // .first_gen_log_probs: relayed in the object, never made here
    kChatIds = 1U << 4U,        // prompt_token_ids of a chat
    kChatIdsB64 = 1U << 5U      // prompt_token_ids_b64 of a chat
};

std::optional<std::uint32_t> parse_schema(std::string_view openapi);
// What every build of this release accepts; of an unknown one nothing is known.
std::uint32_t accepted_by_release(std::string_view version) noexcept;
// The members above that a refusal names as unknown.
std::uint32_t refused_members(std::string_view refusal) noexcept;

}  // namespace sluice::trtllm
