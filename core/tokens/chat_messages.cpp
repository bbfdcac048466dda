#include "core/tokens/chat_messages.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "core/tokens/chat_fields.hpp"
#include "core/tokens/jinja/json.hpp"

namespace sluice::tokens {
namespace {

constexpr std::string_view kBilling = "x-anthropic-billing-header";

bool is_media(std::string_view type) {
    static constexpr std::string_view kMedia[] = {
        "image_url", "image_pil",    "image_embeds", "input_image", "image",
        "audio_url", "input_audio",  "audio_embeds", "audio",       "video_url",
        "video",     "video_embeds", "prompt_embeds"};
    return std::ranges::find(kMedia, type) != std::end(kMedia);
}

// The key that holds the text of a part of this type; empty if it has none.
std::string_view text_key(std::string_view type) {
    if (type == "text" || type == "input_text" || type == "output_text") {
        return "text";
    }
    return type == "refusal" || type == "thinking" ? type : std::string_view();
}

class Shaper {
public:
    Shaper(Arena& arena, const MessageStyle& style) : arena_(arena), style_(style) {}

    Result<Value> message(const Value& in) {
        const Value* role = field(in, "role");
        if (role == nullptr || !role->is_string()) {
            return invalid("a message needs a role");
        }
        DictData* out = make_dict(arena_, 8);
        put(arena_, *out, "role", *role);
        auto content = this->content(field(in, "content"), role->str());
        if (!content) {
            return std::move(content).error();
        }
        put(arena_, *out, "content", *content);
        if (role->str() == "assistant") {
            if (auto status = assistant(in, *out); !status) {
                return std::move(status).error();
            }
        }
        if (const Value* id = field(in, "tool_call_id"); id != nullptr && role->str() == "tool") {
            put(arena_, *out, "tool_call_id", *id);
        }
        if (const Value* name = field(in, "name"); name != nullptr && name->is_string()) {
            put(arena_, *out, "name", *name);
        }
        if (const Value* task = field(in, "task"); task != nullptr && task->is_string()) {
            put(arena_, *out, "task", *task);
        }
        if (role->str() == "developer") {
            const Value* tools = field(in, "tools");
            put(arena_, *out, "tools", tools != nullptr ? *tools : Value::none());
        }
        return Value::of(out);
    }

    bool has_media() const { return has_media_; }

private:
    struct Part {
        std::string_view text;
        const Value* source = nullptr;  // the part, if it was an object
        std::string_view key;           // where its text was
        bool is_raw = false;            // passed on as it is
    };

    static Part text_part(std::string_view text) { return Part{text, nullptr, {}, false}; }

    Result<Value> content(const Value* in, std::string_view role) {
        std::vector<Part> parts;
        if (in == nullptr || in->is_none()) {
            // no parts
        } else if (in->is_string()) {
            parts.push_back(text_part(without_billing(in->str(), role)));
        } else if (in->is(Kind::List)) {
            for (const Value& item : in->list->view()) {
                if (auto status = part(item, role, parts); !status) {
                    return std::move(status).error();
                }
            }
        } else {
            return invalid("message content must be a string or a list of parts");
        }
        const bool has_raw = std::ranges::any_of(parts, &Part::is_raw);
        if (style_.format == ContentFormat::OpenAi && (role != "tool" || has_raw)) {
            return list_of(parts);
        }
        std::vector<std::string_view> texts;
        const bool keeps_empty = style_.format == ContentFormat::OpenAi;
        for (const Part& p : parts) {
            if (keeps_empty || !p.text.empty()) {
                texts.push_back(p.text);
            }
        }
        return join_texts(arena_, texts, "\n");
    }

    Status part(const Value& item, std::string_view role, std::vector<Part>& parts) {
        if (item.is_string()) {
            parts.push_back(text_part(without_billing(item.str(), role)));
            return {};
        }
        const Value* type = set_field(item, "type");
        if (!item.is_dict() || type == nullptr) {
            return invalid("Missing 'type' field in multimodal part.");
        }
        if (!type->is_string()) {
            return invalid("Invalid 'type' field in multimodal part.");
        }
        if (is_media(type->str())) {
            return media(parts);
        }
        if (type->str() == "tool_reference" && role == "tool") {
            if (style_.format != ContentFormat::OpenAi) {
                return Error{Code::Unsupported, "tool_reference parts in a text template"};
            }
            parts.push_back(Part{{}, &item, {}, true});
            return {};
        }
        const std::string_view key = text_key(type->str());
        if (key.empty()) {
            return invalid("Unknown part type: " + std::string(type->str()));
        }
        const Value* text = set_field(item, key);
        if (text == nullptr) {
            return {};  // the engine skips it
        }
        if (!text->is_string()) {
            return invalid("a part's text must be a string");
        }
        parts.push_back(Part{without_billing(text->str(), role), &item, key, false});
        return {};
    }

    // A text template gets the placeholders of all media in front of the message's text, so the
    // prompt is unknown from the start of the message.
    Status media(std::vector<Part>& parts) {
        if (!style_.may_cut) {
            return Error{Code::Unsupported, "the request has media"};
        }
        if (!has_media_) {
            const auto at = style_.format == ContentFormat::String ? parts.begin() : parts.end();
            parts.insert(at, text_part(kMediaMark));
            has_media_ = true;
        }
        return {};
    }

    static std::string_view without_billing(std::string_view text, std::string_view role) {
        if (role != "system" || !text.starts_with(kBilling)) {
            return text;
        }
        const std::size_t newline = text.find('\n');
        return newline == std::string_view::npos ? "" : text.substr(newline + 1);
    }

    Value list_of(const std::vector<Part>& parts) {
        ListData* out = make_list(arena_, parts.size());
        for (const Part& p : parts) {
            if (p.is_raw) {
                append(arena_, *out, *p.source);
                continue;
            }
            DictData* item = make_dict(arena_, 2);
            put(arena_, *item, "type", Value::of("text"));
            put(arena_, *item, "text", Value::of(p.text));
            if (p.source != nullptr) {
                for (const DictEntry& e : p.source->dict->view()) {
                    if (e.key.str() != "type" && e.key.str() != p.key) {
                        put(arena_, *item, e.key, e.value);
                    }
                }
            }
            append(arena_, *out, Value::of(item));
        }
        return Value::of(out);
    }

    Status assistant(const Value& in, DictData& out) {
        if (const Value* calls = set_field(in, "tool_calls")) {
            if (!calls->is(Kind::List)) {
                return invalid("tool_calls must be a list");
            }
            ListData* shaped = make_list(arena_, calls->list->size);
            for (const Value& call : calls->list->view()) {
                auto v = tool_call(call);
                if (!v) {
                    return std::move(v).error();
                }
                append(arena_, *shaped, *v);
            }
            if (shaped->size > 0) {
                put(arena_, out, "tool_calls", Value::of(shaped));
            }
        }
        const Value* reasoning =
            style_.engine == ChatEngine::Vllm ? set_field(in, "reasoning") : nullptr;
        reasoning = reasoning != nullptr ? reasoning : set_field(in, "reasoning_content");
        if (reasoning != nullptr) {
            if (style_.engine == ChatEngine::Vllm) {
                put(arena_, out, "reasoning", *reasoning);
            }
            put(arena_, out, "reasoning_content", *reasoning);
        }
        return {};
    }

    // Copies what `out` does not have yet.
    void put_others(DictData& out, const Value& from) {
        for (const DictEntry& e : from.dict->view()) {
            if (find(out, e.key) == nullptr) {
                put(arena_, out, e.key, e.value);
            }
        }
    }

    Result<Value> tool_call(const Value& call) {
        const Value* function = field(call, "function");
        const Value* name = function != nullptr ? field(*function, "name") : nullptr;
        if (name == nullptr || !name->is_string()) {
            return invalid("a tool call needs a function with a name");
        }
        auto arguments = this->arguments(field(*function, "arguments"));
        if (!arguments) {
            return std::move(arguments).error();
        }
        DictData* inner = make_dict(arena_, 2);
        put(arena_, *inner, "arguments", *arguments);
        put(arena_, *inner, "name", *name);
        put_others(*inner, *function);
        DictData* out = make_dict(arena_, 3);
        if (const Value* id = field(call, "id")) {
            put(arena_, *out, "id", *id);
        }
        put(arena_, *out, "function", Value::of(inner));
        if (const Value* type = field(call, "type")) {
            put(arena_, *out, "type", *type);
        }
        put_others(*out, call);
        return Value::of(out);
    }

    Result<Value> arguments(const Value* in) {
        const Value empty = Value::of(make_dict(arena_, 0));
        if (in == nullptr || in->is_none()) {
            return empty;
        }
        if (in->is_dict()) {
            return *in;
        }
        if (!in->is_string()) {
            return empty;
        }
        auto parsed = jinja::parse_json(arena_, in->str());
        if (parsed) {
            return *parsed;
        }
        if (parsed.error().code == Code::Limit) {
            return parsed;
        }
        const std::string_view text = in->str();
        // Python reads these as numbers, the JSON standard does not.
        if (text.find("NaN") != std::string_view::npos ||
            text.find("Infinity") != std::string_view::npos) {
            return Error{Code::Unsupported, "tool arguments with NaN or Infinity"};
        }
        return style_.engine == ChatEngine::TrtLlm ? *in : empty;
    }

    Arena& arena_;
    const MessageStyle& style_;
    bool has_media_ = false;
};

}  // namespace

Result<ShapedMessages> shape_messages(Arena& arena, const Value& messages,
                                      const MessageStyle& style) {
    if (!messages.is(Kind::List)) {
        return invalid("messages must be a list");
    }
    if (messages.list->size == 0) {
        return invalid(
            "Cannot apply chat template to an empty conversation. Provide at least one message.");
    }
    Shaper shaper(arena, style);
    ListData* out = make_list(arena, messages.list->size);
    bool has_developer = false;
    for (const Value& message : messages.list->view()) {
        auto shaped = shaper.message(message);
        if (!shaped) {
            return std::move(shaped).error();
        }
        has_developer = has_developer || has_role(*shaped, "developer");
        append(arena, *out, *shaped);
    }
    if (has_developer && !style.knows_developer && style.engine == ChatEngine::Vllm) {
        out = without_developer(arena, out);
    }
    if (arena.exceeded()) {
        return Error{Code::Limit, "the request is too large to render"};
    }
    return ShapedMessages{out, shaper.has_media()};
}

}  // namespace sluice::tokens
