// From a checked request to running generations: what completions and chat do alike.
//
// Threads: the connection's.
#pragma once
#include <functional>
#include <vector>

#include "tests/sim/engine/run.hpp"
#include "tests/sim/vllm/params.hpp"
#include "tests/sim/vllm/service.hpp"

namespace sluice::sim::vllm {

// Submits every choice of one prompt.
using Submit = std::function<void(const std::vector<TokenId>& prompt, const Params& p,
                                  std::uint32_t max_tokens, const Lora* lora)>;

// Picks the engine core, applies the faults that strike before anything else, and calls `body`
// with the run. Refuses a rank that does not exist.
void start_request(Service& s, const http::Request& request, http::Exchange& exchange,
                   const json::Value& json, const std::function<void(Run&, const Submit&)>& body);

// Makes the answer this text, then the end.
void hold_to_text(const TextModel& model, const json::Value& text, Sampling& sampling);

}  // namespace sluice::sim::vllm
