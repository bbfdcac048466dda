// Pieces of replies that completions and chat share.
//
// Threads: any; values.
// Source:  captures comp-*, chat-*, b-usage-*, b-chat-*.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/engine/sampling.hpp"
#include "tests/sim/engine/text_model.hpp"
#include "tests/sim/support/json.hpp"
#include "tests/sim/vllm/params.hpp"

namespace sluice::sim::vllm {

struct Usage {
    std::uint64_t prompt = 0;
    std::uint64_t completion = 0;
    std::optional<std::uint64_t> cached;   // reported only when asked for
    std::optional<std::uint64_t> created;  // chat says how many tokens it added to the cache
    std::optional<std::uint64_t> reasoning;
};

// In a plain reply: every field, unset ones null.
void write_plain_usage(json::Writer& w, const Usage& u);
// In the last chunk of a stream: unset fields left out.
void write_last_usage(json::Writer& w, const Usage& u);

// `finish_reason` of a choice: text or null; `stop_reason`: text, token or null.
void write_finish(json::Writer& w, const std::optional<Finish>& f);
void write_stop_reason(json::Writer& w, const std::optional<Finish>& f);
void write_ids(json::Writer& w, const std::vector<TokenId>& ids);

std::string fingerprint(std::string_view version);
std::uint64_t now_s();

// A made-up but steady distribution: the chosen token first, then less likely ones.
struct Alternative {
    TokenId id = 0;
    double logprob = 0;
};
std::vector<Alternative> alternatives(const TextModel& model, TokenId chosen, std::uint32_t others);
// A token's text as the logprobs of either endpoint show it.
std::string token_text(const TextModel& model, TokenId id);
// The prompt_logprobs array: null, then one object a token.
void write_prompt_logprobs(json::Writer& w, const TextModel& model,
                           const std::vector<TokenId>& prompt, std::uint32_t others);

}  // namespace sluice::sim::vllm
