// Context and generation legs: which requests have them, their bodies, and what the second is told
// of the first.
//
// Threads: request, several at once; pure functions over one leg.
// Errors:  read_handoff() throws Failure where the bytes are not those that pack() made.
// Source:  trtllm-serve 0.21 to 1.3 and later, disaggregated serving: openai_protocol,
//          openai_server, openai_disagg_service.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/sdk.hpp"

namespace sluice::trtllm {

struct Split {
    enum class Kind : std::uint8_t { Whole, Pair, Refused } kind = Kind::Whole;
    std::string_view why;  // with Refused
};
// `all_accept`: what every engine of the pool accepts (Accepts).
Split split_of(const sluice_request& request, std::uint32_t all_accept);

// What a context leg's reply has for the generation leg. Texts as the engine wrote them.
struct Handoff {
    std::string_view id;      // X-Request-Id of the context leg
    std::string_view params;  // the object, for generation already; empty = nothing handed over
    std::string_view ids;     // the prompt: a list of numbers, or text that is a list in base64
    std::string_view usage;   // an object
};
std::string pack(const Handoff& handoff);
Handoff read_handoff(sluice_bytes bytes);
// `params` of a context reply as the generation leg sends them: only request_type is another.
std::string for_generation(std::string_view params);

void make_context(Edits& body, std::uint64_t transfer_id, std::uint32_t accepts);
void make_generation(Edits& body, std::string_view path, const Handoff& handoff,
                     std::uint32_t accepts);

// Both legs' X-Request-Id: the same for the whole attempt, another one for the next.
std::string receipt_id(const sluice_leg& leg);
// The value of the header that proves where a hand-off comes from; empty: nothing to prove, or it
// cannot be signed.
std::string signature_of(std::string_view params, std::string_view key);

}  // namespace sluice::trtllm
