// From a request body to the token ids of its prompt, as the engine will make them.
//
// Threads: any one at a time an instance; the caller decides where (large texts not on a loop).
// Errors:  none for the client: whatever goes wrong is a reason to fall through to the next tier,
//          in the words of the miss counter.
// Source:  tokenization contract, what the servers feed; routing contract, miss reasons.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/body.hpp"
#include "core/route/facts.hpp"
#include "core/route/service.hpp"
#include "core/tokens/model.hpp"

namespace sluice::route {

struct Prompt {
    std::vector<std::uint32_t> tokens;
    std::string_view miss;  // empty: tokens are the prompt's; else why not
    bool is_cut = false;    // only the part before an image or the like
    std::uint32_t segments = 0;
    std::uint32_t cached_segments = 0;

    void reset();
};

// True when the ids can be had without a tokenizer (a completions prompt given as ids).
bool is_token_prompt(const Facts& facts);
// True when the API has a prompt we can tokenize at all.
bool has_prompt(const Facts& facts);

// `model` may be null when is_token_prompt().
void read_prompt(const Facts& facts, const tokens::Model* model, json::BodyReader& reader,
                 Prompt& out);

// read_prompt() with copies of all it needs, to be run on another thread.
struct PromptJob {
    PromptJob(const Facts& of, std::string_view body, std::shared_ptr<const tokens::Model> with);
    void run();

    std::string text;  // the body, with the slack the reader asks for
    Facts facts;
    std::shared_ptr<const tokens::Model> model;
    Prompt prompt;
};

// The name of the tokenizer directory for a request: the served model, for an adapter its parent,
// without a model the rule's, else the one base model served; empty when none of them says.
// Source: management contract, tokenizer directory of a request.
std::string tokenizer_name(const Service& service, std::string_view served_model);

}  // namespace sluice::route
