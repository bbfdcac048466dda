// One endpoint under watch: may it be followed, what is it, how busy is it; and the feed of its
// events.
//
// Threads: event thread; served(), accepts(), refuses() and may_tell_of_key() any.
// Errors:  failures of the engine's API are asked again in time and reported once.
// Owns:    its timer, its calls, its feed: destroying it stops everything.
// Limits:  bodies of kMaxSmallBody, kMaxMetricsBody and kMaxSchemaBody; one call of each kind in
// flight.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "plugins/trtllm/accepts.hpp"
#include "plugins/trtllm/facts.hpp"
#include "plugins/trtllm/feed.hpp"
#include "plugins/trtllm/key_file.hpp"
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
    static constexpr std::uint64_t kMaxSchemaBody = 4U << 20U;
    static constexpr std::uint64_t kRetryTicks = 5;     // admission without an answer
    static constexpr std::uint64_t kRecheckTicks = 60;  // a refusal; metrics that are not there
    static constexpr std::uint64_t kModelsEveryTicks = 10;
    static constexpr std::uint64_t kSilentTicks = 3;  // served traffic without events

    // What all endpoints of an instance share.
    struct Shared {
        Settings settings;
        KeyFile key{settings.key_file};
        std::function<void()> accepts_changed;  // event
    };

    Attachment(const Host& host, Shared& shared, const sluice_endpoint& endpoint,
               std::uint32_t watch);
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;

    // [any] A request that this endpoint answered.
    void served(const sluice_served& s) noexcept {
        served_.note(s, block_tokens_.load(std::memory_order_relaxed));
    }
    // [any] What this build accepts in the bodies of legs (Accepts).
    std::uint32_t accepts() const noexcept {
        return accepts_.load(std::memory_order_relaxed) & ~refused_.load(std::memory_order_relaxed);
    }
    // [any] It refused these.
    void refuses(std::uint32_t members) noexcept {
        refused_.fetch_or(members, std::memory_order_relaxed);
    }
    // [any] Whether its refusal of the key of this serial is news.
    bool may_tell_of_key(std::uint64_t serial) noexcept {
        return told_key_.exchange(serial + 1, std::memory_order_relaxed) != serial + 1;
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
    void ask_schema();
    void on_schema(const sluice_http_result& r);
    void set_accepts(std::uint32_t members);
    void forget_accepts();
    void look_at_key();
    void judge_silence();
    void heard(const sluice_http_result& result);
    void engine_changed(std::string_view why);
    void tell_facts();

    const Host& host_;
    Shared& shared_;
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

    // What bodies of legs may hold; asked for until it is answered.
    bool has_schema_ = false;
    std::uint64_t schema_at_tick_ = 0;
    std::atomic<std::uint32_t> accepts_{0};
    std::atomic<std::uint32_t> refused_{0};
    std::atomic<std::uint64_t> told_key_{0};

    Served served_;
    std::atomic<std::uint32_t> block_tokens_{kDefaultBlockTokens};
    std::uint64_t silent_ticks_ = 0;
    std::uint64_t silent_since_drain_ = 0;

    Signal signal_;
    Feed feed_;

    // Last members, so that callbacks end before what they touch.
    HttpCall admission_call_, version_call_, models_call_, metrics_call_, schema_call_;
    Timer timer_;
};

}  // namespace sluice::trtllm
