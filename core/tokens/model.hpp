// One tokenizer directory: tokenizer.json, tokenizer_config.json and the chat template.
//
// Files: tokenizer.json is required. tokenizer_config.json gives special tokens and, without a
// chat_template.jinja beside it, the template: a text, or a list of named ones of which `tool_use`
// is taken when the request has tools and `default` otherwise. config.json is read for its
// model_type only.
//
// Threads: any; immutable after load().
// Errors:  load(): NotFound without tokenizer.json, Io, Invalid or Unsupported with the file's
// name.
//          render(): as ChatTemplate::render, and Unsupported without a usable template.
// Limits:  configuration files over 64 MiB are refused; Tokenizer and ChatTemplate have their own.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/tokens/chat.hpp"
#include "core/tokens/tokenizer.hpp"

namespace sluice::tokens {

class Model {
public:
    // Reads and compiles everything: takes some 100 ms. Never on an event loop.
    static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& dir);
    static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& dir,
                                                     const Tokenizer::Options& options);

    const Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
    bool has_chat_template() const noexcept { return default_ != nullptr; }
    // Why chat must fall through although the directory may have a template: the engine builds the
    // prompt of such models by code (gpt-oss and others), or the template does not compile.
    // Empty when render() can be trusted.
    std::string_view chat_refusal() const noexcept { return chat_refusal_; }

    // The prompt of a chat request body. Refuses with Unsupported when chat_refusal() says so.
    Result<std::string> render(std::string_view body_json, const ChatOptions& options = {},
                               RenderInfo* info = nullptr) const;
    // The same without regard to chat_refusal(), for engines that do use the template.
    Result<std::string> render_template(std::string_view body_json, const ChatOptions& options = {},
                                        RenderInfo* info = nullptr) const;

private:
    Model() = default;

    std::shared_ptr<const Tokenizer> tokenizer_;
    std::shared_ptr<const ChatTemplate> default_;
    std::shared_ptr<const ChatTemplate> tool_use_;  // null without a template of that name
    std::string chat_refusal_;
};

}  // namespace sluice::tokens
