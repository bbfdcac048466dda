// One endpoint under watch: discovery, facts, load, models, and a Rank for each event stream.
//
// With kvEventsFrom the events are another gateway's, and so is discovery; of the engine itself
// only load and models are asked, and only where they are watched.
//
// Threads: event thread; voice(), prefill_facts() any.
// Errors:  failures of the engine's API are retried with a growing pause and reported once.
// Owns:    its timer, its calls, its ranks: destroying it stops everything.
// Limits:  bodies of kMaxSmallBody and kMaxMetricsBody; one call of each kind in flight.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugins/vllm/facts.hpp"
#include "plugins/vllm/rank.hpp"
#include "plugins/vllm/settings.hpp"
#include "sluice/sdk.hpp"

namespace sluice::vllm {

class Attachment final : public Rank::Owner {
public:
    static constexpr std::uint64_t kTickUs = 1'000'000;
    static constexpr std::uint64_t kModelsEveryTicks = 10;
    static constexpr std::uint64_t kDiscoverEveryTicks = 10;  // while something is wrong
    static constexpr std::uint64_t kCallTimeoutUs = 3'000'000;
    static constexpr std::uint64_t kMaxSmallBody = 4U << 20U;
    static constexpr std::uint64_t kMaxMetricsBody = 8U << 20U;

    // What a request thread heard of the engine.
    enum class Voice : std::uint32_t { Nothing, Draining, Dead };

    Attachment(const Host& host, const Settings& settings, const sluice_endpoint& endpoint,
               std::uint32_t watch);
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;

    // [any] Said to the host as this endpoint's health at the next tick.
    void voice(Voice v) const noexcept { voice_.store(v, std::memory_order_relaxed); }
    // [any] What the legs of a request must know of this engine as their prefill side.
    PrefillFacts prefill_facts() const;

private:
    const Host& host() const noexcept override { return host_; }
    const Settings& settings() const noexcept override { return settings_; }
    std::uint64_t endpoint() const noexcept override { return id_; }
    std::string lora_path(const std::string& name) const override;
    void link_changed(bool up) override;
    void block_tokens_seen(std::uint32_t tokens) override;

    bool watches(std::uint32_t bit) const noexcept { return (watch_ & bit) != 0; }
    void tick();
    void discover();
    void on_sources(const sluice_http_result& r);
    void retry_discovery();
    // Another gateway publishes this endpoint's events.
    bool is_read_elsewhere() const noexcept { return !settings_.events_from.empty(); }
    bool asks_engine() const noexcept {
        return !is_read_elsewhere() || watches(SLUICE_WATCH_LOAD) || watches(SLUICE_WATCH_MODELS);
    }
    std::string sources_url() const;
    void follow(std::vector<Feed> feeds);
    void events_off(std::string_view detail, std::string_view advice);
    void start_feeds_when_ready();
    void ask_version();
    void scrape();
    void on_metrics(const sluice_http_result& r);
    void ask_models();
    void on_models(const sluice_http_result& r);
    void tell_facts();
    void tell_load(const Metrics& m);
    void tell_health(const Metrics& m);
    void tell_prefix_caching(const Metrics& m);
    std::uint32_t classic_ranks() const noexcept;
    void report(std::uint32_t state, std::uint32_t why, std::string_view reason,
                std::string_view detail, std::string_view advice = {});
    Started get(HttpCall& call, std::string_view target, std::uint64_t max_bytes,
                void (Attachment::*done)(const sluice_http_result&));
    void on_version(const sluice_http_result& r);
    // Another process answers there now: what its legs need is asked anew, and until then unknown.
    void forget_process();
    std::string bootstrap_url() const;
    void ask_bootstrap();
    void on_bootstrap(const sluice_http_result& r);

    const Host& host_;
    const Settings& settings_;
    std::uint64_t id_;
    std::string engine_address_;
    std::string address_;  // under which the engine's API, or the gateway's, is reached
    std::string name_;     // as the rule has the endpoint, "10.0.0.7:8000"
    std::uint32_t watch_;
    std::uint32_t declared_ranks_;

    std::map<std::uint32_t, std::unique_ptr<Rank>> ranks_;
    std::optional<std::vector<Feed>> waiting_feeds_;  // known, not started: facts come first
    bool is_off_ = false;
    std::uint64_t ticks_ = 0;
    std::uint64_t discover_at_tick_ = 0;  // 0 = not planned
    std::uint64_t retry_ticks_ = 1;
    bool said_unreachable_ = false;

    // The facts as known, and as last told.
    struct Known {
        std::string version;
        std::uint64_t epoch = 0;
        std::uint32_t ranks = 0, block_tokens = 0, max_tokens = 0;
        bool operator==(const Known&) const = default;
    };
    Known known_;
    std::optional<Known> told_;
    bool version_settled_ = false;  // answered, or failed once
    bool metrics_settled_ = false;
    bool events_gave_block_size_ = false;
    std::string hash_algorithm_;
    std::optional<bool> prefix_caching_;
    std::vector<Model> models_;

    mutable std::atomic<Voice> voice_{Voice::Nothing};
    std::atomic<std::uint32_t> version_number_{0};
    std::atomic<std::uint32_t> block_tokens_{0};
    std::atomic<bool> counts_holds_{false};
    // So many asks in a row without an answer, one each tick, and the server is given up.
    static constexpr unsigned kBootstrapMisses = 3;
    unsigned bootstrap_misses_ = 0;
    mutable std::mutex bootstrap_mu_;
    std::optional<Bootstrap> bootstrap_;  // guarded by bootstrap_mu_
    bool is_voiced_ = false;
    std::optional<bool> asleep_;

    // Last members, so that callbacks end before what they touch.
    HttpCall discovery_call_, version_call_, metrics_call_, models_call_, bootstrap_call_;
    Timer timer_;
};

}  // namespace sluice::vllm
