#include "core/tokens/chat.hpp"

#include <algorithm>
#include <array>

#include "core/tokens/chat_format.hpp"
#include "core/tokens/chat_messages.hpp"
#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/json.hpp"
#include "core/tokens/jinja/parser.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens {
namespace {

constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";

constexpr std::array<std::string_view, 9> kFields = {"messages",
                                                     "tools",
                                                     "documents",
                                                     "tool_choice",
                                                     "chat_template_kwargs",
                                                     "reasoning_effort",
                                                     "chat_template",
                                                     "add_generation_prompt",
                                                     "continue_final_message"};

bool is_unset(const Value& v) {
    return v.is_none() || v.is_undefined() || (v.is_string() && v.str() == "auto");
}

Value member(const Value& object, std::string_view name) {
    const Value* v = find(*object.dict, name);
    return v != nullptr ? *v : Value::none();
}

Result<bool> flag(const Value& body, std::string_view name, bool fallback) {
    const Value v = member(body, name);
    if (v.is_none()) {
        return fallback;
    }
    if (!v.is(Kind::Bool)) {
        return Error{Code::Invalid, std::string(name) + " must be true or false"};
    }
    return v.boolean;
}

bool mentions_quoted(std::string_view source, std::string_view word) {
    for (const char quote : {'\'', '"'}) {
        const std::string text = quote + std::string(word) + quote;
        if (source.find(text) != std::string_view::npos) {
            return true;
        }
    }
    return false;
}

std::size_t memory_limit(std::size_t body_bytes) {
    return std::min(
        ChatTemplate::kMaxMemoryBytes,
        (std::size_t{32} << 20U) + 16 * std::min(body_bytes, ChatTemplate::kMaxMemoryBytes));
}

// Marks where the last message's text ends; `text` is that text. The message is a copy of ours.
Status mark_final_message(Arena& arena, ListData& messages, std::string_view& text) {
    Value& content = *find(*messages.items[messages.size - 1].dict, "content");
    Value* end = content.is_string() ? &content : nullptr;
    if (content.is(Kind::List)) {
        for (std::uint32_t i = content.list->size; i > 0 && end == nullptr; --i) {
            end = find(*content.list->items[i - 1].dict, "text");
        }
    }
    if (end == nullptr || !end->is_string()) {
        return Error{Code::Invalid,
                     "continue_final_message is set but we could not find any text to continue in "
                     "the final message!"};
    }
    text = end->str();
    *end = copy_text(arena, std::string(text) + std::string(kContinueTag));
    return {};
}

Status cut_final_message(std::string& prompt, std::string_view text) {
    const std::string_view tag = kContinueTag.substr(0, kContinueTag.size() - 1);
    const std::size_t at = prompt.rfind(tag);
    if (at == std::string::npos || prompt.find(jinja::strip(text)) == std::string::npos) {
        return Error{Code::Invalid,
                     "continue_final_message is set but the final message does not appear in the "
                     "chat after applying the chat template!"};
    }
    const bool keeps_space = prompt.compare(at, kContinueTag.size(), kContinueTag) == 0;
    prompt.resize(at);
    if (!keeps_space) {
        prompt.resize(jinja::strip_right(prompt).size());
    }
    return {};
}

}  // namespace

struct ChatTemplate::Impl {
    std::unique_ptr<const jinja::Program> program;
    std::map<std::string, std::string> special_tokens;
    ContentFormat format = ContentFormat::String;
    bool knows_developer = false;
    bool mentions_content = false;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(
    std::string_view source, std::map<std::string, std::string> special_tokens) {
    if (source.size() > kMaxSourceBytes) {
        return Error{Code::Limit, "the chat template is too large"};
    }
    auto program = jinja::parse(source);
    if (!program) {
        return std::move(program).error().at("chat template");
    }
    auto impl = std::make_unique<Impl>();
    impl->format = detect_content_format(**program);
    impl->knows_developer = mentions_quoted(source, "developer");
    impl->mentions_content = source.find("content") != std::string_view::npos;
    impl->program = std::move(*program);
    impl->special_tokens = std::move(special_tokens);
    return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(impl)));
}

ContentFormat ChatTemplate::content_format() const noexcept {
    return impl_->format;
}

Result<std::string> ChatTemplate::render_variables(std::string_view variables_json,
                                                   const ChatClock& clock) const {
    const std::size_t limit = memory_limit(variables_json.size());
    Arena arena(limit);
    auto variables = jinja::parse_json(arena, variables_json);
    if (!variables) {
        return std::move(variables).error();
    }
    jinja::Interp in(*impl_->program, arena, {kMaxSteps, limit}, clock.fixed);
    for (const auto& [name, text] : impl_->special_tokens) {
        in.set_variable(name, Value::of(std::string_view(text)));
    }
    for (const DictEntry& e : variables->dict->view()) {
        in.set_variable(e.key.str(), e.value);
    }
    return in.run();
}

Result<std::string> ChatTemplate::render(std::string_view chat_request_json,
                                         const ChatOptions& options, RenderInfo* info) const {
    const std::size_t limit = memory_limit(chat_request_json.size());
    Arena arena(limit);
    auto body = jinja::parse_json_members(arena, chat_request_json, kFields);
    if (!body) {
        return std::move(body).error();
    }
    if (!is_unset(member(*body, "chat_template"))) {
        return Error{Code::Unsupported, "the request brings a chat template of its own"};
    }
    const auto prompts = flag(*body, "add_generation_prompt", true);
    const auto continues = flag(*body, "continue_final_message", false);
    if (!prompts || !continues) {
        return prompts ? continues.error() : prompts.error();
    }
    if (*prompts && *continues) {
        return Error{Code::Invalid,
                     "Cannot set both `continue_final_message` and "
                     "`add_generation_prompt` to True."};
    }

    MessageStyle style;
    style.engine = options.engine;
    style.format = options.engine == ChatEngine::TrtLlm ? ContentFormat::String : impl_->format;
    style.knows_developer = impl_->knows_developer;
    style.may_cut = info != nullptr;
    auto shaped = shape_messages(arena, member(*body, "messages"), style);
    if (!shaped) {
        return std::move(shaped).error();
    }
    const Value choice = member(*body, "tool_choice");
    const bool drops_tools =
        options.drops_tools_on_choice_none && choice.is_string() && choice.str() == "none";
    auto tools = shape_tools(arena, drops_tools ? Value::none() : member(*body, "tools"));
    if (!tools) {
        return std::move(tools).error();
    }
    std::string_view final_text;
    if (*continues) {
        if (!impl_->mentions_content) {
            return Error{Code::Invalid,
                         "continue_final_message is set but the chat template does "
                         "not use message content"};
        }
        if (auto marked = mark_final_message(arena, *shaped->messages, final_text); !marked) {
            return std::move(marked).error();
        }
    }

    jinja::Interp in(*impl_->program, arena, {kMaxSteps, limit}, options.clock.fixed);
    in.set_variable("messages", Value::of(shaped->messages));
    in.set_variable("tools", *tools);
    in.set_variable("documents", Value::none());
    for (const auto& [name, text] : impl_->special_tokens) {
        in.set_variable(name, Value::of(std::string_view(text)));
    }
    bool has_thinking = false;
    if (const Value kwargs = member(*body, "chat_template_kwargs"); kwargs.is_dict()) {
        for (const DictEntry& e : kwargs.dict->view()) {
            const std::string_view name = e.key.str();
            if (name == "chat_template" || name == "tokenize") {
                return Error{Code::Invalid,
                             "chat_template_kwargs must not have " + std::string(name)};
            }
            if (name == "messages" || name == "tools" || name == "conversation") {
                return Error{Code::Unsupported, "chat_template_kwargs with " + std::string(name)};
            }
            if (is_unset(e.value) || name == "continue_final_message") {
                continue;
            }
            in.set_variable(name, e.value);
            has_thinking = has_thinking || name == "enable_thinking";
        }
    } else if (!kwargs.is_none()) {
        return Error{Code::Invalid, "chat_template_kwargs must be an object"};
    }
    // Only the request's own effort implies a value of enable_thinking, not one in the kwargs.
    if (const Value effort = member(*body, "reasoning_effort"); !is_unset(effort)) {
        in.set_variable("reasoning_effort", effort);
        if (!has_thinking) {
            in.set_variable("enable_thinking",
                            Value::of(!(effort.is_string() && effort.str() == "none")));
        }
    }
    if (const Value documents = member(*body, "documents"); !is_unset(documents)) {
        in.set_variable("documents", documents);
    }
    in.set_variable("add_generation_prompt", Value::of(*prompts));

    auto prompt = in.run();
    if (!prompt) {
        return prompt;
    }
    if (shaped->has_media) {
        const std::size_t mark = prompt->find(kMediaMark);
        if (mark == std::string::npos) {
            return Error{Code::Unsupported, "the chat template does not show where media begin"};
        }
        prompt->resize(mark);
        info->is_cut_at_media = true;
        return prompt;
    }
    if (*continues) {
        if (auto cut = cut_final_message(*prompt, final_text); !cut) {
            return std::move(cut).error();
        }
    }
    return prompt;
}

}  // namespace sluice::tokens
