#include "tests/sim/vllm/request_start.hpp"

#include <cstdlib>

namespace sluice::sim::vllm {
namespace {

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

}  // namespace

void start_request(Service& s, const http::Request& request, http::Exchange& exchange,
                   const json::Value& json, const std::function<void(Run&, const Submit&)>& body) {
    auto picked = s.pick(request);
    if (const auto* e = std::get_if<ApiError>(&picked)) {
        return exchange.send(e->response());
    }
    Engine& engine = *std::get<Engine*>(picked);
    if (!s.options().kv_connector.empty() && is_foreign_transfer(json)) {
        std::_Exit(kForeignTransferExit);  // what NIXL does with params it did not make
    }
    const LoadCount count(s.load());
    Run run(exchange, s.faults().of(request), kShapes);
    if (!run.passes_start()) {
        return;
    }
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
            run.add(engine, std::move(r));
        }
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
