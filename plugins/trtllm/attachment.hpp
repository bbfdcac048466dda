// One endpoint under watch: may it be followed, what is it, how busy is it; and the feed of its
// events.
//
// Threads: event thread; served() any.
// Errors:  failures of the engine's API are asked again in time and reported once.
// Owns:    its timer, its calls, its feed: destroying it stops everything.
// Limits:  bodies of kMaxSmallBody and kMaxMetricsBody; one call of each kind in flight.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "plugins/trtllm/facts.hpp"
#include "plugins/trtllm/feed.hpp"
#include "plugins/trtllm/settings.hpp"
#include "sluice/sdk.hpp"

namespace sluice::trtllm {

class Attachment final : public Feed::Owner {
public:
    static constexpr std::uint64_t kTickUs = 1'000'000;
    static constexpr std::uint64_t kAdmissionTimeoutUs = 5'000'000;
    static constexpr std::uint64_t kCallTimeoutUs = 3'000'000;
    static constexpr std::uint64_t kMaxSmallBody = 1U << 20U;
    static constexpr std::uint64_t kMaxMetricsBody = 8U << 20U;
    static constexpr std::uint64_t kRetryTicks = 5;     // admission without an answer
    static constexpr std::uint64_t kRecheckTicks = 60;  // a refusal; metrics that are not there
    static constexpr std::uint64_t kModelsEveryTicks = 10;
    static constexpr std::uint64_t kSilentTicks = 3;  // served traffic without events

    Attachment(const Host& host, const Settings& settings, const sluice_endpoint& endpoint,
               std::uint32_t watch);
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;

    // [any] A request that this endpoint answered.
    void served(const sluice_served& s) noexcept {
        served_.note(s, block_tokens_.load(std::memory_order_relaxed));
    }

private:
    void call_ended(const sluice_http_result& result) override;
    bool block_tokens_shown(std::uint32_t tokens) override;
    void algo_shown(const std::string& name) override;
    void size_is_odd() override { ask_admission_soon(); }
    bool has_served() const override { return served_.any(); }
    void ranks_seen(std::uint32_t count) override;
    void restarted() override;

    bool watches(std::uint32_t bit) const noexcept { return (watch_ & bit) != 0; }
    using Handler = void (Attachment::*)(const sluice_http_result&);
    void get(HttpCall& call, std::string_view target, std::uint64_t max_bytes, Handler done,
             std::uint64_t timeout_us = kCallTimeoutUs);
    void tick();
    void ask_admission();
    void ask_admission_soon() noexcept { admission_at_tick_ = ticks_ + 1; }
    void on_server_info(const sluice_http_result& r);
    void settle();
    void on_version(const sluice_http_result& r);
    void on_models(const sluice_http_result& r);
    void on_metrics(const sluice_http_result& r);
    void judge_silence();
    void heard(const sluice_http_result& result);
    void engine_changed(std::string_view why);
    void tell_facts();

    const Host& host_;
    const Settings& settings_;
    std::uint64_t id_;
    std::uint32_t watch_;
    std::uint64_t ticks_ = 0;

    // Admission.
    std::uint64_t admission_at_tick_ = 0;  // 0 = not planned
    std::optional<ServerInfo> info_;       // as last answered
    bool has_route_ = true;
    std::optional<std::uint32_t> shown_block_tokens_;  // by this engine process's events
    std::string shown_algo_;

    // Facts, and whether the engine is the one it was.
    std::string version_;
    std::uint64_t epoch_ = 1;
    std::uint32_t ranks_ = 0;
    std::uint32_t max_running_ = 0;
    bool is_down_ = false;  // its port refused; when it answers again, another process does
    bool has_models_ = false;
    bool has_metrics_ = true;  // until told otherwise

    Served served_;
    std::atomic<std::uint32_t> block_tokens_{kDefaultBlockTokens};
    std::uint64_t silent_ticks_ = 0;
    std::uint64_t silent_since_drain_ = 0;

    Signal signal_;
    Feed feed_;

    // Last members, so that callbacks end before what they touch.
    HttpCall admission_call_, version_call_, models_call_, metrics_call_;
    Timer timer_;
};

}  // namespace sluice::trtllm
