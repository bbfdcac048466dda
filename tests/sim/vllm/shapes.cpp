#include "tests/sim/vllm/shapes.hpp"

#include <algorithm>
#include <ctime>

#include "tests/sim/support/utf8.hpp"

namespace sluice::sim::vllm {
namespace {

void write_counts(json::Writer& w, const Usage& u) {
    w.field("prompt_tokens", u.prompt);
    w.field("total_tokens", u.prompt + u.completion);
    w.field("completion_tokens", u.completion);
}

void write_optional(json::Writer& w, std::string_view key, std::optional<std::uint64_t> n) {
    if (n) {
        w.field(key, *n);
    } else {
        w.null_field(key);
    }
}

}  // namespace

void write_plain_usage(json::Writer& w, const Usage& u) {
    w.key("usage").open_object();
    write_counts(w, u);
    w.key("prompt_tokens_details");
    if (u.cached) {
        w.open_object().field("cached_tokens", *u.cached);
        write_optional(w, "created_cache_tokens", u.created);
        w.null_field("multimodal_tokens").close_object();
    } else {
        w.null();
    }
    w.key("completion_tokens_details");
    if (u.reasoning) {
        w.open_object().field("reasoning_tokens", *u.reasoning).close_object();
    } else {
        w.null();
    }
    w.close_object();
}

void write_last_usage(json::Writer& w, const Usage& u) {
    w.key("usage").open_object();
    write_counts(w, u);
    if (u.cached) {
        w.key("prompt_tokens_details").open_object().field("cached_tokens", *u.cached);
        if (u.created) {
            w.field("created_cache_tokens", *u.created);
        }
        w.close_object();
    }
    if (u.reasoning) {
        w.key("completion_tokens_details").open_object();
        w.field("reasoning_tokens", *u.reasoning).close_object();
    }
    w.close_object();
}

void write_finish(json::Writer& w, const std::optional<Finish>& f) {
    w.key("finish_reason");
    if (f) {
        w.value(to_string(f->reason));
    } else {
        w.null();
    }
}

void write_stop_reason(json::Writer& w, const std::optional<Finish>& f) {
    w.key("stop_reason");
    if (f && std::holds_alternative<std::string>(f->stop)) {
        w.value(std::get<std::string>(f->stop));
    } else if (f && std::holds_alternative<TokenId>(f->stop)) {
        w.value(static_cast<std::uint64_t>(std::get<TokenId>(f->stop)));
    } else {
        w.null();
    }
}

void write_ids(json::Writer& w, const std::vector<TokenId>& ids) {
    w.open_array();
    for (const TokenId id : ids) {
        w.value(static_cast<std::uint64_t>(id));
    }
    w.close_array();
}

std::string fingerprint(std::string_view version) {
    return "vllm-" + std::string(version) + "-51c0ffee";
}

std::uint64_t now_s() {
    return static_cast<std::uint64_t>(std::time(nullptr));
}

std::vector<Alternative> alternatives(const TextModel& model, TokenId chosen,
                                      std::uint32_t others) {
    std::vector<Alternative> out{{chosen, -0.125 - 0.03125 * (chosen % 8)}};
    std::vector<std::string> seen{token_text(model, chosen)};
    const auto& words = model.words();
    for (std::size_t k = 0; out.size() <= others && k < words.size(); ++k) {
        const TokenId id = words[(chosen * std::size_t{31} + 17 * k) % words.size()];
        // Completions key them by text, so a text must not occur twice.
        std::string text = token_text(model, id);
        if (std::find(seen.begin(), seen.end(), text) == seen.end()) {
            out.push_back({id, out.back().logprob - 1.0 - 0.0625 * static_cast<double>(id % 4)});
            seen.push_back(std::move(text));
        }
    }
    return out;
}

std::string token_text(const TextModel& model, TokenId id) {
    const std::string_view raw = model.bytes_of(id);
    return utf8::valid(raw) ? std::string(raw) : std::string("\xEF\xBF\xBD");
}

void write_prompt_logprobs(json::Writer& w, const TextModel& model,
                           const std::vector<TokenId>& prompt, std::uint32_t others) {
    w.open_array();
    for (std::size_t i = 0; i < prompt.size(); ++i) {
        if (i == 0) {
            w.null();
            continue;
        }
        const auto list = alternatives(model, prompt[i], others);
        w.open_object();
        for (std::size_t k = 0; k < list.size(); ++k) {
            w.key(std::to_string(list[k].id)).open_object();
            w.field("logprob", list[k].logprob);
            w.field("rank", static_cast<std::uint64_t>(k + 1));
            w.field("decoded_token", token_text(model, list[k].id)).close_object();
        }
        w.close_object();
    }
    w.close_array();
}

}  // namespace sluice::sim::vllm
