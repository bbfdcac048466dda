// From the text of a chat request to the text of its prompt, as the engine renders it.
//
//   auto chat = ChatTemplate::compile(source, {{"bos_token", "<s>"}});
//   auto prompt = chat.value()->render(body, {});
//
// compile() is done once a model; render() is the request path: it views the body, shapes messages,
// tools and variables as the engine does, and evaluates the template in an arena of its own.
//
// Threads: any; a ChatTemplate is immutable.
// Errors:  compile(): Invalid for a template that is not valid Jinja. render(): Invalid is the
//          client's fault (a 400 with this text), Limit when the template ran past a bound,
//          Unsupported for a request whose prompt we cannot know (media without `info`,
//          a template in the request).
// Limits:  nesting 256 in JSON and in templates, 250 macro calls, kMaxSteps evaluation steps,
//          working memory and output of 32 MiB + 16 x body each, at most kMaxMemoryBytes.
// Source:  vLLM 0.32 (parse_chat_messages, safe_apply_chat_template), transformers 5.19,
//          Jinja2 3.1.6; tests/vectors/chat/*.jsonl.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace sluice::tokens {

// What strftime_now() formats: the local time of the call unless `fixed` is set (tests, replays).
struct ChatClock {
    std::optional<std::tm> fixed;
};

// Whose message preprocessing is followed.
enum class ChatEngine { Vllm, TrtLlm };

// How a template takes message content: one string, or the list of parts.
enum class ContentFormat { String, OpenAi };

struct ChatOptions {
    ChatClock clock{};
    ChatEngine engine = ChatEngine::Vllm;
    // The engine drops `tools` when tool_choice is "none" (a server flag of vLLM; off by default).
    bool drops_tools_on_choice_none = false;
};

struct RenderInfo {
    // The request has images, audio or other media; the text ends where the first of them begins.
    // Tokens close to the end may differ from the engine's: use whole blocks before it only.
    bool is_cut_at_media = false;
};

class ChatTemplate {
public:
    static constexpr std::uint64_t kMaxSteps = 20'000'000;
    static constexpr std::size_t kMaxMemoryBytes = std::size_t{512} << 20U;
    static constexpr std::size_t kMaxSourceBytes = std::size_t{4} << 20U;

    // `special_tokens` (bos_token, eos_token, ...) become variables of the template.
    static Result<std::shared_ptr<const ChatTemplate>> compile(
        std::string_view source, std::map<std::string, std::string> special_tokens);

    ~ChatTemplate();
    ChatTemplate(const ChatTemplate&) = delete;
    ChatTemplate& operator=(const ChatTemplate&) = delete;

    // `chat_request_json` is the body of POST /v1/chat/completions. Without `info` a request with
    // media is Unsupported; with it the text is cut there.
    Result<std::string> render(std::string_view chat_request_json, const ChatOptions& options,
                               RenderInfo* info = nullptr) const;

    // Renders with variables given as a JSON object, no preprocessing. For tests and tools.
    Result<std::string> render_variables(std::string_view variables_json,
                                         const ChatClock& clock) const;

    // Found from the syntax tree, as vLLM's `--chat-template-content-format auto` does.
    ContentFormat content_format() const noexcept;

private:
    struct Impl;
    explicit ChatTemplate(std::unique_ptr<const Impl> impl) noexcept;
    std::unique_ptr<const Impl> impl_;
};

}  // namespace sluice::tokens
