#include "tests/sim/trtllm/request.hpp"

#include <algorithm>

#include "core/base/random.hpp"

namespace sluice::sim::trtllm {
namespace {

constexpr std::uint32_t kOldDefaultMaxTokens = 16;

std::optional<std::uint32_t> count(const json::Value& body, std::string_view name) {
    const json::Value* v = body.get(name);
    if (v == nullptr || v->integer() == nullptr) {
        return std::nullopt;
    }
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(*v->integer(), 0, 100'000'000));
}

void read_stops(const json::Value& body, Sampling& out) {
    const json::Value* stop = body.get("stop");
    if (stop != nullptr && stop->text() != nullptr) {
        out.stop.push_back(*stop->text());
    }
    for (const json::Value& v :
         stop != nullptr && stop->array() != nullptr ? *stop->array() : json::Array()) {
        if (v.text() != nullptr) {
            out.stop.push_back(*v.text());
        }
    }
    const json::Value* ids = body.get("stop_token_ids");
    for (const json::Value& v :
         ids != nullptr && ids->array() != nullptr ? *ids->array() : json::Array()) {
        if (v.integer() != nullptr) {
            out.stop_ids.push_back(static_cast<TokenId>(*v.integer()));
        }
    }
}

}  // namespace

std::variant<Params, ApiError> read_params(Service& s, const http::Request& request,
                                           const json::Value& body) {
    Params p;
    p.model = body.text_of("model");
    p.streams = body.flag("stream", false);
    if (const json::Value* so = body.get("stream_options")) {
        p.includes_usage = so->flag("include_usage", true);
        p.has_continuous_usage = p.includes_usage && so->flag("continuous_usage_stats", false);
    }
    p.echoes = body.flag("echo", false);
    p.choices = std::max(1U, count(body, "n").value_or(1));
    const auto max_tokens = count(body, "max_completion_tokens");
    p.max_tokens = max_tokens ? max_tokens : count(body, "max_tokens");
    p.sampling.min_tokens = count(body, "min_tokens").value_or(0);
    p.sampling.ignores_eos = body.flag("ignore_eos", false);
    p.sampling.includes_stop = body.flag("include_stop_str_in_output", false);
    read_stops(body, p.sampling);
    if (const json::Value* salt = body.get("cache_salt")) {
        p.salt = *salt->text();
    }
    if (const json::Value* lora = body.get("lora_request")) {
        const json::Value* id = lora->get("lora_int_id");
        if (id == nullptr || id->integer() == nullptr || lora->text_of("lora_name").empty()) {
            return ApiError{400, "lora_request needs lora_name and lora_int_id"};
        }
        p.lora = s.adapter(*id->integer(), std::string(lora->text_of("lora_name")));
        if (p.lora == nullptr) {
            return ApiError{400, "too many LoRA adapters"};
        }
    }
    auto disagg = read_disagg(s, request, body);
    if (auto* e = std::get_if<ApiError>(&disagg)) {
        return std::move(*e);
    }
    p.disagg = std::get<std::optional<Disagg>>(std::move(disagg));
    if (p.disagg && !p.disagg->is_context) {
        p.sampling.given = p.disagg->first;
    }
    return p;
}

std::variant<std::uint32_t, ApiError> room(const Service& s, const Params& p,
                                           std::size_t prompt_tokens) {
    const std::int64_t limit = s.options().max_seq_len;
    const std::int64_t left = limit - static_cast<std::int64_t>(prompt_tokens);
    if (left <= 0) {
        return ApiError{400, "The sum of prompt length (" + std::to_string(prompt_tokens) +
                                 ") and max_tokens should not exceed max_seq_len (" +
                                 std::to_string(limit) + ")"};
    }
    const std::int64_t wanted = p.max_tokens ? std::int64_t{*p.max_tokens}
                                : s.options().era() <= Era::V1_0
                                    ? std::int64_t{kOldDefaultMaxTokens}
                                    : left;
    if (wanted < 1) {
        return ApiError{400, "max_tokens must be greater than 0, got max_tokens=0"};
    }
    return static_cast<std::uint32_t>(std::min(wanted, left));
}

void write_usage(json::Writer& w, const Usage& u) {
    w.key("usage").open_object().field("prompt_tokens", u.prompt);
    w.field("total_tokens", u.prompt + u.completion).field("completion_tokens", u.completion);
    if (u.cached) {
        w.key("prompt_tokens_details").open_object();
        w.field("cached_tokens", *u.cached).close_object();
    }
    w.close_object();
}

void start(Service& s, const http::Request& request, http::Exchange& exchange, const Params& p,
           const std::vector<Prompt>& prompts, const std::function<void(Run&)>& answer) {
    std::vector<std::uint32_t> rooms;
    for (const Prompt& prompt : prompts) {
        const auto r = room(s, p, prompt.ids.size());
        if (const auto* e = std::get_if<ApiError>(&r)) {
            return exchange.send(e->response());
        }
        rooms.push_back(std::get<std::uint32_t>(r));
    }
    Run run(exchange, s.faults().of(request), failure_shapes());
    if (!run.passes_start()) {
        return;
    }
    std::shared_ptr<const TransferAsk> ask;
    if (p.disagg) {
        auto asked = ask_for(s, exchange, *p.disagg, prompts.front().ids);
        if (const auto* e = std::get_if<ApiError>(&asked)) {
            return exchange.send(e->response());
        }
        ask = std::get<std::shared_ptr<const TransferAsk>>(std::move(asked));
        if (ask == nullptr) {
            return;
        }
    }
    s.desk().note_request();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        Engine& engine = s.pick();
        for (std::uint32_t choice = 0; choice < p.choices; ++choice) {
            GenerateRequest r;
            r.prompt = prompts[i].ids;
            r.sampling = p.sampling;
            r.sampling.max_tokens = p.disagg && p.disagg->is_context ? 1 : rooms[i];
            r.sampling.variant = choice;
            r.salt = p.salt;
            r.lora = p.lora;
            r.media = prompts[i].media;
            r.handoff = ask;
            run.add(engine, std::move(r));
        }
    }
    answer(run);
    s.note_finished(s.next_id());
}

std::optional<std::uint64_t> cached_tokens(const Service& s, const Params& p, const Run& run) {
    if (!reports_cached_tokens(s.options().era())) {
        return std::nullopt;
    }
    if (p.disagg && p.disagg->ctx_cached) {
        return p.disagg->ctx_cached;
    }
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < run.size(); i += p.choices) {
        out += run.cached_tokens(i);
    }
    return out;
}

std::string reply_id(std::string_view prefix) {
    return std::string(prefix) + "-" + random_hex_id();
}

ChunkIds::ChunkIds(Service& s, std::string_view prefix) : prefix_(prefix) {
    if (has_steady_ids(s.options().era())) {
        steady_ = prefix_ + "-" + std::to_string(s.next_id());
    }
}

std::string ChunkIds::next() const {
    return steady_.empty() ? reply_id(prefix_) : steady_;
}

}  // namespace sluice::sim::trtllm
