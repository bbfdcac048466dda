// The generation parameters of a request body, checked as vLLM checks them.
//
// Threads: any; values.
// Errors:  the first refusal in vLLM's order.
// Source:  captures comp-*, chat-*; vLLM 0.32 protocol validators and SamplingParams.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/sim/engine/sampling.hpp"
#include "tests/sim/support/exchange.hpp"
#include "tests/sim/vllm/api_error.hpp"
#include "tests/sim/vllm/options.hpp"

namespace sluice::sim::vllm {

struct Params {
    Sampling sampling;  // max_tokens is filled per prompt, see room()
    bool streams = false;
    bool includes_usage = false;
    bool has_continuous_usage = false;
    bool echoes = false;
    bool returns_token_ids = false;
    bool repeats_hits = false;
    std::uint32_t choices = 1;
    std::optional<std::uint32_t> logprobs;  // alternatives a token
    std::optional<std::uint32_t> prompt_logprobs;
    std::optional<std::int64_t> asked_max_tokens;
    std::string salt;
    std::string session_id;
    std::string id;                                  // with the prefix: cmpl-...
    const json::Value* structured_choice = nullptr;  // text the answer is held to
};

// Fields both endpoints share, for validate().
std::vector<Field> common_fields();
// Reads what both endpoints share; `prefix` is "cmpl-" or "chatcmpl-".
Params read_params(const json::Value& body, const http::Request& request, const Options& options,
                   std::string_view prefix);
// Checks of single values that come before the prompt is looked at.
Check check_stream_options(const json::Value& body);
Check check_salt(const json::Value& body);
// Checks of the sampling values, made when the prompt is known.
Check check_sampling(const json::Value& body, const Params& p);
// max_tokens for a prompt of that length; `otherwise` when none was asked for.
std::variant<std::uint32_t, ApiError> room(const Params& p, std::size_t prompt_tokens,
                                           std::uint32_t max_model_len,
                                           std::optional<std::uint32_t> otherwise);

}  // namespace sluice::sim::vllm
