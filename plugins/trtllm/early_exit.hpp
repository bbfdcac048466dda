// The client's answer where the context leg already has all of it.
//
// Threads: request; pure functions.
// Errors:  none; a member the engine left out is left out here.
// Source:  trtllm-serve: CompletionStreamResponse, ChatCompletionStreamResponse, StreamOptions
//          (include_usage is true unless it is said not to be).
#pragma once
#include <string>
#include <string_view>

#include "plugins/trtllm/context_reply.hpp"

namespace sluice::trtllm {

// The reply without what engines say to each other; all else byte for byte.
std::string whole_answer(const ContextReply& reply);

struct StreamWish {
    bool has_usage = false;      // a last chunk with it
    bool has_usage_all = false;  // and every other
};
// `options`: stream_options as the client sent them; empty = none.
StreamWish stream_wish(std::string_view options);

// The same answer as the events of a stream, "data: [DONE]" included.
std::string streamed_answer(const ContextReply& reply, bool is_chat, StreamWish wish);

}  // namespace sluice::trtllm
