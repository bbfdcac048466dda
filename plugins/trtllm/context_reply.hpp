// The reply of a context leg: a completion of one token that says what was kept for whom.
//
// Threads: request; a value that borrows the reply's text.
// Errors:  read_context_reply() is empty where the text is no JSON object.
// Limits:  the host bounds the text; one pass over each level, linear.
// Source:  trtllm-serve 0.21 to 1.3 and later: CompletionResponse, ChatCompletionResponse,
//          DisaggregatedParams.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/sdk.hpp"

namespace sluice::trtllm {

struct ContextReply {
    std::string_view text;
    std::vector<spans::Span> members;
    std::string_view choice;                  // the only one; empty where there is no single one
    std::vector<spans::Span> choice_members;  // of it

    // The answer is complete: there is nothing left to generate.
    bool is_complete() const;
    // The object for the generation leg; empty with the reason why there is none.
    std::string_view params(std::string_view& fault) const;
    // As written: a list of numbers, or text in base64. Empty where none is given, or it is odd.
    std::string_view ids() const;
    std::string_view usage() const;  // an object, or empty
    std::uint32_t cached_tokens() const;
};

std::optional<ContextReply> read_context_reply(std::string_view text);

// The numbers of a list; empty where it holds anything else.
std::vector<std::uint32_t> token_ids(std::string_view list);

}  // namespace sluice::trtllm
