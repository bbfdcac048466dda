// The messages and tools of a request as the engine hands them to the template.
//
// Threads: one rendering.
// Errors:  Invalid where the engine refuses, with its wording; Unsupported for media unless
//          `may_cut`.
// Source:  vLLM 0.32, chat_utils; contract tests: tests/vectors/chat (template_messages).
#pragma once
#include <string_view>

#include "core/base/result.hpp"
#include "core/tokens/chat.hpp"
#include "core/tokens/value.hpp"

namespace sluice::tokens {

// Stands where the first media part was; the prompt is cut there. Private-use code points keep it
// apart from what people write.
inline constexpr std::string_view kMediaMark = "\xF3\xB0\x80\x80sluice-media\xF3\xB0\x80\x81";

struct MessageStyle {
    ContentFormat format = ContentFormat::String;
    ChatEngine engine = ChatEngine::Vllm;
    bool knows_developer = false;  // the template names the role
    bool may_cut = false;
};

struct ShapedMessages {
    ListData* messages = nullptr;
    bool has_media = false;
};

Result<ShapedMessages> shape_messages(Arena& arena, const Value& messages,
                                      const MessageStyle& style);
// None stays none.
Result<Value> shape_tools(Arena& arena, const Value& tools);

}  // namespace sluice::tokens
