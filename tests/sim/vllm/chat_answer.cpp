#include "tests/sim/vllm/chat_answer.hpp"

#include <algorithm>

#include "core/base/random.hpp"

namespace sluice::sim::vllm {
namespace {

constexpr std::string_view kThinkEnd = "</think>";

std::string call_id() {
    return "chatcmpl-tool-" + random_hex_id().substr(0, 16);
}

}  // namespace

ChatAnswer::ChatAnswer(Service& s, Setup setup)
    : service_(s), setup_(std::move(setup)), p_(setup_.params), created_(now_s()) {
    choices_.resize(p_.choices);
    for (Choice& c : choices_) {
        c.is_thinking = setup_.is_thinking;
    }
}

// Takes a step in, and says which of its text is thinking.
ChatAnswer::Split ChatAnswer::add(Choice& c, const Step& step) {
    c.ids.push_back(step.token);
    if (step.finish) {
        c.finish = step.finish;
    }
    Split out;
    if (!c.is_thinking) {
        out.text = step.text;
    } else {
        c.pending += step.text;
        const std::size_t end = c.pending.find(kThinkEnd);
        if (end != std::string::npos) {
            out.reasoning = c.pending.substr(0, end);
            out.text = c.pending.substr(end + kThinkEnd.size());
            c.is_thinking = false;
            c.pending.clear();
        } else {
            ++c.reasoning_tokens;
            std::size_t held = 0;
            for (std::size_t n = std::min(c.pending.size(), kThinkEnd.size() - 1); n > 0; --n) {
                if (std::string_view(c.pending).substr(c.pending.size() - n) ==
                    kThinkEnd.substr(0, n)) {
                    held = step.finish ? 0 : n;
                    break;
                }
            }
            out.reasoning = c.pending.substr(0, c.pending.size() - held);
            c.pending.erase(0, c.pending.size() - held);
        }
    }
    // Once thinking has ended, a mark that ends it again is dropped.
    if (setup_.is_thinking && !c.is_thinking) {
        for (std::size_t at; (at = out.text.find(kThinkEnd)) != std::string::npos;) {
            out.text.erase(at, kThinkEnd.size());
        }
    }
    c.reasoning += out.reasoning;
    c.text += out.text;
    return out;
}

std::vector<ChatAnswer::Delta> ChatAnswer::deltas(Choice& c, const Split& split) const {
    std::vector<Delta> out;
    if (!split.reasoning.empty()) {
        out.push_back({{}, split.reasoning, {}});
    }
    if (setup_.tools == ToolChoice::None) {
        if (!split.text.empty()) {
            out.push_back({split.text, {}, {}});
        }
        return out;
    }
    for (ToolDelta& d : c.tools.push(split.text)) {
        if (d.kind == ToolDelta::Kind::Text) {
            out.push_back({std::move(d.text), {}, {}});
        } else {
            out.push_back({{}, {}, std::move(d)});
        }
    }
    return out;
}

// A named choice ends with "stop", a free or required one with "tool_calls".
std::string ChatAnswer::finish_word(const Choice& c) const {
    const bool called = p_.streams ? c.tools.calls() > 0 : !parse_tools(c.text).calls.empty();
    const bool may_say_so =
        setup_.tools == ToolChoice::Auto || setup_.tools == ToolChoice::Required;
    if (called && may_say_so && c.finish->reason == FinishReason::Stop) {
        return "tool_calls";
    }
    return std::string(to_string(c.finish->reason));
}

Usage ChatAnswer::usage(const Run& run) const {
    Usage u;
    u.prompt = setup_.prompt.size();
    std::uint64_t reasoning = 0;
    for (const Choice& c : choices_) {
        u.completion += c.ids.size();
        reasoning += c.reasoning_tokens;
    }
    if (service_.options().reports_prompt_details) {
        const std::uint64_t size = service_.options().engine.cache.block_size;
        u.cached = run.cached_tokens();
        const std::uint64_t full = u.prompt / size * size;
        u.created = full > *u.cached && !run.was_fetched() ? full - *u.cached : 0;
    }
    if (service_.options().parses_reasoning) {
        u.reasoning = reasoning;
    }
    return u;
}

void ChatAnswer::answer(Run& run) {
    const bool ended = run.drive([this](std::size_t i, Step& step) {
        (void)add(choices_[i], step);  // the split matters to streams only
    });
    if (ended) {
        http::Response r;
        r.body = plain(run);
        run.reply(r);
    }
}

void ChatAnswer::stream(Run& run, http::Exchange& exchange) {
    exchange.open_stream();
    bool has_roles = false;
    const bool ended = run.drive([&](std::size_t i, Step& step) {
        for (std::size_t c = 0; !has_roles && c < choices_.size(); ++c) {
            run.event(sse(role_chunk(c)));
        }
        has_roles = true;
        Choice& choice = choices_[i];
        auto list = deltas(choice, add(choice, step));
        // A call's last chunk is empty: the reason to finish comes apart from the arguments.
        const bool ends_apart = !list.empty() && list.back().tool && step.finish;
        if (ends_apart || (list.empty() && step.finish)) {
            list.emplace_back();
        }
        for (std::size_t d = 0; d < list.size(); ++d) {
            const bool is_last = d + 1 == list.size();
            run.event(sse(delta_chunk(i, choice, list[d], step, is_last && step.finish.has_value(),
                                      is_last)));
        }
        // Text held back for a stop text: the token is told of, its text comes later.
        if (list.empty() && setup_.tools == ToolChoice::None && !setup_.is_thinking) {
            run.event(sse(delta_chunk(i, choice, Delta{"", {}, {}}, step, false, true)));
        }
    });
    if (!ended || run.is_broken()) {
        return;
    }
    if (p_.includes_usage && !run.event(sse(usage_chunk(run)))) {
        return;
    }
    if (run.event(kDone)) {
        exchange.close_stream();
    }
}

void ChatAnswer::begin(json::Writer& w, std::string_view object) const {
    w.open_object().field("id", p_.id).field("object", object);
    w.field("created", created_).field("model", setup_.model);
}

void ChatAnswer::write_chunk_usage(json::Writer& w, std::size_t completion) const {
    if (!p_.has_continuous_usage) {
        return;
    }
    const std::uint64_t prompt = setup_.prompt.size();
    w.key("usage").open_object().field("prompt_tokens", prompt);
    w.field("total_tokens", prompt + completion);
    w.field("completion_tokens", static_cast<std::uint64_t>(completion));
    w.null_field("completion_tokens_details").close_object();
}

std::string ChatAnswer::role_chunk(std::size_t index) const {
    json::Writer w;
    begin(w, "chat.completion.chunk");
    w.key("choices").open_array().open_object();
    w.field("index", static_cast<std::uint64_t>(index)).key("delta").open_object();
    w.field("role", "assistant").field("content", setup_.echoed).close_object();
    w.null_field("logprobs").null_field("finish_reason").close_object().close_array();
    write_chunk_usage(w, 0);
    w.key("prompt_token_ids");
    if (p_.returns_token_ids) {
        write_ids(w, setup_.prompt);
    } else {
        w.null();
    }
    return w.null_field("prompt_text").close_object().take();
}

void ChatAnswer::write_delta(json::Writer& w, const Delta& d) const {
    w.key("delta").open_object();
    if (d.reasoning) {
        w.field("reasoning", *d.reasoning);
    }
    if (d.text) {
        w.field("content", *d.text);
    }
    if (d.tool) {
        w.null_field("content").key("tool_calls").open_array().open_object();
        const bool is_start = d.tool->kind == ToolDelta::Kind::Start;
        if (is_start) {
            w.field("id", call_id()).field("type", "function");
        }
        w.field("index", static_cast<std::uint64_t>(d.tool->index)).key("function").open_object();
        w.field(is_start ? "name" : "arguments", d.tool->text);
        w.close_object().close_object().close_array();
    }
    w.close_object();
}

std::string ChatAnswer::delta_chunk(std::size_t index, const Choice& c, const Delta& d,
                                    const Step& step, bool is_last, bool has_tokens) const {
    json::Writer w;
    begin(w, "chat.completion.chunk");
    w.key("choices").open_array().open_object();
    w.field("index", static_cast<std::uint64_t>(index));
    write_delta(w, d);
    w.key("logprobs");
    if (p_.logprobs && has_tokens) {
        write_logprobs(w, {step.token});
    } else {
        w.null();
    }
    w.key("finish_reason");
    if (is_last) {
        w.value(finish_word(c));
        write_stop_reason(w, c.finish);
    } else {
        w.null();
    }
    w.key("token_ids");
    if (p_.returns_token_ids && has_tokens) {
        write_ids(w, {step.token});
    } else {
        w.null();
    }
    w.close_object().close_array();
    write_chunk_usage(w, c.ids.size());
    if (is_last && !p_.includes_usage) {
        w.field("system_fingerprint", fingerprint(service_.options().version));
    }
    return w.close_object().take();
}

std::string ChatAnswer::usage_chunk(const Run& run) const {
    json::Writer w;
    begin(w, "chat.completion.chunk");
    w.key("choices").open_array().close_array();
    write_last_usage(w, usage(run));
    w.field("system_fingerprint", fingerprint(service_.options().version));
    return w.close_object().take();
}

void ChatAnswer::write_logprobs(json::Writer& w, const std::vector<TokenId>& ids) const {
    const TextModel& m = service_.model();
    const auto write = [&](const Alternative& a) {
        const std::string text = token_text(m, a.id);
        w.field("token", text).field("logprob", a.logprob).key("bytes").open_array();
        for (const char c : text) {
            w.value(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
        }
        w.close_array();
    };
    w.open_object().key("content").open_array();
    for (const TokenId id : ids) {
        const auto list = alternatives(m, id, *p_.logprobs > 0 ? *p_.logprobs - 1 : 0);
        w.open_object();
        write(list.front());
        w.key("top_logprobs").open_array();
        for (std::size_t k = 0; k < list.size() && k < *p_.logprobs; ++k) {
            w.open_object();
            write(list[k]);
            w.close_object();
        }
        w.close_array().close_object();
    }
    w.close_array().close_object();
}

void ChatAnswer::write_message(json::Writer& w, const Choice& c) const {
    const ToolAnswer parsed =
        setup_.tools == ToolChoice::None ? ToolAnswer{c.text, {}} : parse_tools(c.text);
    const bool is_free = setup_.tools == ToolChoice::Auto;
    w.key("message").open_object().field("role", "assistant").key("content");
    const bool is_null =
        parsed.text.empty() && ((is_free && !parsed.calls.empty()) || setup_.is_thinking);
    if (is_null) {
        w.null();
    } else {
        w.value(setup_.echoed + parsed.text);
    }
    w.null_field("refusal").null_field("annotations").null_field("audio");
    w.null_field("function_call");
    if (!parsed.calls.empty()) {
        w.key("tool_calls").open_array();
        for (const ToolCall& call : parsed.calls) {
            w.open_object().field("id", call_id()).field("type", "function");
            w.key("function").open_object().field("name", call.name);
            w.field("arguments", call.arguments).close_object().close_object();
        }
        w.close_array();
    }
    w.key("reasoning");
    if (c.reasoning.empty()) {
        w.null();
    } else {
        w.value(c.reasoning);
    }
    w.close_object();
}

std::string ChatAnswer::plain(const Run& run) const {
    json::Writer w;
    begin(w, "chat.completion");
    w.key("choices").open_array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
        const Choice& c = choices_[i];
        w.open_object().field("index", static_cast<std::uint64_t>(i));
        write_message(w, c);
        w.key("logprobs");
        if (p_.logprobs) {
            write_logprobs(w, c.ids);
        } else {
            w.null();
        }
        w.field("finish_reason", finish_word(c));
        write_stop_reason(w, c.finish);
        w.key("token_ids");
        if (p_.returns_token_ids) {
            write_ids(w, c.ids);
        } else {
            w.null();
        }
        w.null_field("routed_experts").close_object();
    }
    w.close_array().null_field("service_tier");
    w.field("system_fingerprint", fingerprint(service_.options().version));
    write_plain_usage(w, usage(run));
    w.key("prompt_logprobs");
    if (p_.prompt_logprobs) {
        write_prompt_logprobs(w, service_.model(), setup_.prompt, *p_.prompt_logprobs);
    } else {
        w.null();
    }
    w.key("prompt_token_ids");
    if (p_.returns_token_ids) {
        write_ids(w, setup_.prompt);
    } else {
        w.null();
    }
    w.null_field("prompt_text");
    write_transfer(w, service_.options().engine.pd, run.offer().get());
    w.null_field("ec_transfer_params");
    return w.null_field("metrics").close_object().take();
}

}  // namespace sluice::sim::vllm
