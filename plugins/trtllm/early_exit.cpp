#include "plugins/trtllm/early_exit.hpp"

#include <algorithm>
#include <span>

namespace sluice::trtllm {

namespace {

using Members = std::vector<spans::Span>;

std::string_view or_else(std::string_view value, std::string_view otherwise) noexcept {
    return value.empty() ? otherwise : value;
}

// `text`, an object of these members, without the named ones.
std::string without(std::string_view text, const Members& members,
                    std::span<const std::string_view> names, std::string_view replaced = {},
                    std::string_view replacement = {}) {
    std::vector<sluice_field> fields;
    fields.reserve(members.size());
    for (const spans::Span& m : members) {
        sluice_field f{};
        f.size = sizeof f;
        f.name = borrow(m.name);
        f.at = static_cast<std::uint64_t>(m.name.data() - text.data()) - 1;
        f.value_at = static_cast<std::uint64_t>(m.value.data() - text.data());
        f.value_bytes = m.value.size();
        fields.push_back(f);
    }
    Edits edits(borrow_bytes(text), array_of(std::span<const sluice_field>(fields)));
    for (const std::string_view name : names) {
        edits.erase(name);
    }
    if (!replaced.empty()) {
        edits.set(replaced, std::string(replacement));
    }
    std::string out;
    out.reserve(text.size());
    std::size_t at = 0;
    for (const Edits::Span& s : edits.spans()) {
        out += text.substr(at, s.at - at);
        out += s.data;
        at = s.at + s.erase;
    }
    return out += text.substr(at);
}

// Writes chunks that share their head.
class Chunks {
public:
    Chunks(const ContextReply& reply, bool is_chat, StreamWish wish)
        : usage_(wish.has_usage ? reply.usage() : std::string_view()),
          has_usage_all_(wish.has_usage_all) {
        const auto value = [&](std::string_view name) {
            return spans::value_of(reply.members, name);
        };
        head_ = "data: {\"id\":" + std::string(or_else(value("id"), "\"\"")) +
                ",\"object\":" + (is_chat ? "\"chat.completion.chunk\"" : "\"text_completion\"") +
                ",\"created\":" + std::string(or_else(value("created"), "0")) +
                ",\"model\":" + std::string(or_else(value("model"), "\"\"")) + ",\"choices\":[";
        index_ = or_else(spans::value_of(reply.choice_members, "index"), "0");
    }
    // `members`: of the choice behind its index, each with a comma in front.
    void choice(std::string_view members, std::string_view usage) {
        out_ += head_ + "{\"index\":" + index_;
        out_ += members;
        out_ += "}]";
        if (has_usage_all_ && !usage.empty()) {
            out_ += ",\"usage\":";
            out_ += usage;
        }
        out_ += "}\n\n";
    }
    void choice(std::string_view members) { choice(members, usage_); }
    std::string finish() {
        if (!usage_.empty()) {
            out_ += head_ + "],\"usage\":";
            out_ += usage_;
            out_ += "}\n\n";
        }
        return std::move(out_) + "data: [DONE]\n\n";
    }
    // Before the first token.
    std::string usage_at_start() const {
        const auto members = spans::members_of(usage_.empty() ? "{}" : usage_);
        const auto prompt = members ? spans::value_of(*members, "prompt_tokens") : "";
        if (prompt.empty()) {
            return {};
        }
        std::string out = "{\"prompt_tokens\":" + std::string(prompt) +
                          ",\"total_tokens\":" + std::string(prompt) + ",\"completion_tokens\":0";
        if (const auto details = spans::value_of(*members, "prompt_tokens_details");
            !details.empty()) {
            out += ",\"prompt_tokens_details\":" + std::string(details);
        }
        return out + "}";
    }

private:
    std::string head_, index_, out_;
    std::string_view usage_;
    bool has_usage_all_;
};

std::string member(std::string_view name, std::string_view value) {
    return ",\"" + std::string(name) + "\":" + std::string(value);
}

// The reason and what goes with it, in a chunk of its own.
std::string ending(const ContextReply& reply, std::string_view logprobs) {
    const Members& choice = reply.choice_members;
    std::string out;
    if (!logprobs.empty()) {
        out += member("logprobs", logprobs);
    }
    out += member("finish_reason", spans::value_of(choice, "finish_reason"));
    if (const auto stop = spans::value_of(choice, "stop_reason"); !stop.empty()) {
        out += member("stop_reason", stop);
    }
    return out;
}

std::string text_chunks(const ContextReply& reply, StreamWish wish) {
    const Members& choice = reply.choice_members;
    Chunks chunks(reply, false, wish);
    std::string content = member("text", or_else(spans::value_of(choice, "text"), "\"\""));
    for (const std::string_view name : {"token_ids", "logprobs"}) {
        if (const auto value = spans::value_of(choice, name); !value.empty()) {
            content += member(name, value);
        }
    }
    chunks.choice(content + member("finish_reason", "null"));
    chunks.choice(member("text", "\"\"") + ending(reply, {}));
    return chunks.finish();
}

// Calls as a stream has them: each says which it is.
std::string tool_calls(std::string_view list) {
    const auto calls = list.empty() ? std::nullopt : spans::elements_of(list);
    std::string out;
    std::size_t n = 0;
    for (const spans::Span& call : calls ? *calls : Members()) {
        const auto inside = spans::members_of(call.value);
        if (!inside || inside->empty()) {
            continue;
        }
        const bool has_index = !spans::value_of(*inside, "index").empty();
        out += n == 0 ? "{" : ",{";
        out += has_index ? std::string() : "\"index\":" + std::to_string(n) + ",";
        out += call.value.substr(1);
        ++n;
    }
    return out.empty() ? out : "[" + out + "]";
}

std::string chat_chunks(const ContextReply& reply, StreamWish wish) {
    const Members& choice = reply.choice_members;
    const std::string_view message = spans::value_of(choice, "message");
    const auto inside = message.empty() ? std::nullopt : spans::members_of(message);
    const auto of_message = [&](std::string_view name) {
        const auto value = inside ? spans::value_of(*inside, name) : std::string_view();
        return value == "\"\"" || value == "[]" ? std::string_view() : value;
    };
    std::string_view logprobs = spans::value_of(choice, "logprobs");
    Chunks chunks(reply, true, wish);
    chunks.choice(
        ",\"delta\":{\"role\":" + std::string(or_else(of_message("role"), "\"assistant\"")) +
            ",\"content\":\"\"}" + member("finish_reason", "null"),
        chunks.usage_at_start());
    const auto delta = [&](std::string_view members) {
        std::string out = ",\"delta\":{" + std::string(members) + "}";
        if (!logprobs.empty()) {
            out += member("logprobs", std::exchange(logprobs, {}));
        }
        chunks.choice(out + member("finish_reason", "null"));
    };
    for (const std::string_view name : {"reasoning", "reasoning_content", "content"}) {
        if (const auto value = of_message(name); !value.empty()) {
            delta("\"" + std::string(name) + "\":" + std::string(value));
        }
    }
    if (const std::string calls = tool_calls(of_message("tool_calls")); !calls.empty()) {
        delta("\"tool_calls\":" + calls);
    }
    chunks.choice(",\"delta\":{}" + ending(reply, logprobs));
    return chunks.finish();
}

}  // namespace

std::string whole_answer(const ContextReply& reply) {
    constexpr std::string_view kOfReply[] = {"prompt_token_ids", "prompt_token_ids_b64"};
    constexpr std::string_view kOfChoice[] = {"disaggregated_params", "mm_embedding_handle"};
    if (reply.choice.empty()) {
        return without(reply.text, reply.members, kOfReply);
    }
    // A null handle says nothing and stays, as in any other answer.
    const bool has_handle = !spans::value_of(reply.choice_members, "mm_embedding_handle").empty();
    const std::string choice =
        without(reply.choice, reply.choice_members, std::span(kOfChoice, has_handle ? 2 : 1));
    const std::string_view choices = spans::value_of(reply.members, "choices");
    const std::size_t at = static_cast<std::size_t>(reply.choice.data() - choices.data());
    const std::string list = std::string(choices.substr(0, at)) + choice +
                             std::string(choices.substr(at + reply.choice.size()));
    return without(reply.text, reply.members, kOfReply, "choices", list);
}

StreamWish stream_wish(std::string_view options) {
    const auto members = options.empty() ? std::nullopt : spans::members_of(options);
    if (!members) {
        return {};
    }
    const auto is_true = [](std::string_view value) {
        return !value.empty() && value != "false" && value != "0" && value != "\"false\"";
    };
    StreamWish out{true, is_true(spans::value_of(*members, "continuous_usage_stats"))};
    for (const spans::Span& m : *members) {
        if (m.name == "include_usage") {
            out.has_usage = is_true(m.value == "null" ? std::string_view() : m.value);
        }
    }
    out.has_usage_all = out.has_usage_all && out.has_usage;
    return out;
}

std::string streamed_answer(const ContextReply& reply, bool is_chat, StreamWish wish) {
    if (reply.text.find_first_of("\r\n") != std::string_view::npos) {
        // Space between values; inside an event it would end it.
        std::string flat(reply.text);
        std::replace_if(
            flat.begin(), flat.end(), [](char c) { return c == '\r' || c == '\n'; }, ' ');
        const auto again = read_context_reply(flat);
        return again ? streamed_answer(*again, is_chat, wish) : std::string();
    }
    return is_chat ? chat_chunks(reply, wish) : text_chunks(reply, wish);
}

}  // namespace sluice::trtllm
