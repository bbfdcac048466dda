#include "tests/sim/vllm/request_start.hpp"

#include "core/base/random.hpp"

namespace sluice::sim::vllm {
namespace {

ApiError given_up() {
    ApiError e = refuse("Internal server error");
    e.status = 500;
    e.type = "InternalServerError";
    return e;
}

constexpr FailureShapes kShapes{
    [](int status) {
        ApiError e = refuse("fault asked for");
        e.status = status;
        e.type = status >= 500 ? "InternalServerError" : "BadRequestError";
        return e.response();
    },
    [] { return draining(); },
    [] { return engine_dead().response(); },
    [] { return engine_dead().body(json::Style::Spaced); },
    [] { return given_up().response(); },
    [] { return given_up().body(json::Style::Spaced); },
};

class LoadCount {
public:
    explicit LoadCount(std::atomic<std::int64_t>& n) : n_(n) { ++n_; }
    ~LoadCount() { --n_; }
    LoadCount(const LoadCount&) = delete;
    LoadCount& operator=(const LoadCount&) = delete;

private:
    std::atomic<std::int64_t>& n_;
};

// The name an engine gives a request inside, which connectors see.
std::string internal_id(const PdRules& pd, const Params& p, std::size_t prompt,
                        std::uint32_t choice) {
    std::string id = p.id.rfind("cmpl-", 0) == 0 ? p.id + "-" + std::to_string(prompt) : p.id;
    if (pd.randomizes_ids()) {
        id += "-" + random_hex_id().substr(0, 8);
    }
    return p.choices > 1 ? std::to_string(choice) + "_" + id : id;
}

}  // namespace

void start_request(Service& s, const http::Request& request, http::Exchange& exchange,
                   const json::Value& json, const std::function<void(Run&, const Submit&)>& body) {
    auto picked = s.pick(request);
    if (const auto* e = std::get_if<ApiError>(&picked)) {
        return exchange.send(e->response());
    }
    Engine& engine = *std::get<Engine*>(picked);
    const PdRules& pd = s.options().engine.pd;
    const auto transfer = std::make_shared<const TransferAsk>(read_transfer(pd, json));
    const LoadCount count(s.load());
    Run run(exchange, s.faults().of(request), kShapes);
    if (!run.passes_start()) {
        return;
    }
    std::size_t prompts = 0;
    const Submit submit = [&](const std::vector<TokenId>& prompt, const Params& p,
                              std::uint32_t max_tokens, const Lora* lora) {
        for (std::uint32_t i = 0; i < p.choices; ++i) {
            GenerateRequest r;
            r.prompt = prompt;
            r.sampling = p.sampling;
            r.sampling.max_tokens = max_tokens;
            r.sampling.variant = i;
            r.salt = p.salt;
            r.lora = lora;
            r.session_id = p.session_id;
            r.skips_cache = p.prompt_logprobs.has_value() || (p.echoes && p.logprobs.has_value());
            r.repeats_hits = p.repeats_hits;
            r.handoff = transfer;
            r.id = internal_id(pd, p, prompts, i);
            run.add(engine, std::move(r));
        }
        ++prompts;
    };
    body(run, submit);
}

void hold_to_text(const TextModel& model, const json::Value& text, Sampling& sampling) {
    if (text.text() == nullptr) {
        return;
    }
    if (auto ids = model.encode(*text.text(), false)) {
        sampling.script = std::move(ids).value();
    }
}

}  // namespace sluice::sim::vllm
