// The simulated server: its model, its engine cores, and what every endpoint shares.
//
// Owns:    engines, publishers, faults, the record of requests.
// Threads: handle() from connection threads; everything shared has its own lock.
// Errors:  start() says what cannot be had.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "tests/sim/engine/fault.hpp"
#include "tests/sim/engine/record.hpp"
#include "tests/sim/engine/text_model.hpp"
#include "tests/sim/support/exchange.hpp"
#include "tests/sim/support/http_server.hpp"
#include "tests/sim/vllm/api_error.hpp"
#include "tests/sim/vllm/engine.hpp"
#include "tests/sim/vllm/options.hpp"
#include "tests/sim/vllm/publisher.hpp"

namespace sluice::sim::vllm {

class Service {
public:
    explicit Service(Options options);

    Status start();
    void handle(http::Request& request, http::Exchange& exchange);

    const Options& options() const noexcept { return options_; }
    const TextModel& model() const noexcept { return *model_; }
    const std::vector<std::unique_ptr<Engine>>& engines() const noexcept { return engines_; }
    const std::vector<std::unique_ptr<Publisher>>& publishers() const noexcept {
        return publishers_;
    }
    // Where Mooncake's decode engines ask for this one; 0: nowhere.
    std::uint16_t bootstrap_port() const noexcept {
        return bootstrap_ == nullptr ? std::uint16_t{0} : bootstrap_->port();
    }
    FaultBoard& faults() noexcept { return faults_; }
    std::uint64_t started_s() const noexcept { return started_s_; }

    // The engine core of a request: the rank its header names, else the least loaded one.
    std::variant<Engine*, ApiError> pick(const http::Request& request) const;
    // The name to answer under, and the adapter that was asked for.
    struct Named {
        std::string name;
        const Lora* lora = nullptr;
    };
    std::variant<Named, ApiError> find_model(const json::Value& body) const;

    // Requests being answered, when load tracking is on.
    std::atomic<std::int64_t>& load() noexcept { return load_; }
    bool is_asleep() const noexcept { return is_asleep_; }
    void set_asleep(bool asleep) noexcept { is_asleep_ = asleep; }

    Record& record() noexcept { return record_; }

private:
    Status start_bootstrap();
    // Everything that generates nothing.
    http::Response reply(const http::Request& request);
    bool is_authorized(const http::Request& request) const;

    const Options options_;
    std::unique_ptr<TextModel> model_;
    std::vector<std::unique_ptr<Publisher>> publishers_;  // one a rank, or none
    std::vector<std::unique_ptr<Engine>> engines_;        // one a rank
    std::unique_ptr<http::Server> bootstrap_;
    FaultBoard faults_;
    std::uint64_t started_s_;
    std::atomic<std::int64_t> load_{0};
    std::atomic<bool> is_asleep_{false};
    Record record_;
};

// Endpoints, by topic.
void handle_completions(Service& s, http::Request& request, http::Exchange& exchange);
void handle_chat(Service& s, http::Request& request, http::Exchange& exchange);
http::Response handle_models(const Service& s);
http::Response handle_kv_event_sources(const Service& s);
http::Response handle_metrics(const Service& s, const http::Request& request);
http::Response handle_tokenize(const Service& s, const http::Request& request);
http::Response handle_detokenize(const Service& s, const http::Request& request);
// Pause, sleep and cache reset: development mode.
http::Response handle_development(Service& s, const http::Request& request);
// /sim/...: what the simulator offers beside the engine.
http::Response handle_control(Service& s, const http::Request& request);

}  // namespace sluice::sim::vllm
