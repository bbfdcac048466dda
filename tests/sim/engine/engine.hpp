// One engine core (one data-parallel rank): queue, scheduler, model, and a cache of the engine's
// kind.
//
// A step takes running requests first, then waiting ones while slots, tokens and blocks last; it
// lasts as long as its uncached prompt tokens and its decoding cost, then every request whose
// tokens are all computed gets one more.
//
// Owns:    its thread and its cache.
// Threads: submit, abort and the control calls from any; steps on the engine's own. `notify` runs
//          on the engine's thread and must not call back.
// Errors:  requests were validated before, and a prompt always fits (checked at start); what a
//          hand-off lacks ends a request with FinishReason::Error.
// Limits:  waiting requests are unbounded, as in the engine; each is bounded by the context length.
// Source:  vLLM 0.32 scheduler and KV cache manager; contract sections 1.5 and 2.1.
#pragma once
#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/engine/engine_stats.hpp"
#include "tests/sim/engine/handoff.hpp"
#include "tests/sim/engine/prefix_cache.hpp"
#include "tests/sim/engine/sampling.hpp"

namespace sluice::sim {

struct EngineOptions {
    std::uint32_t max_num_seqs = 16;
    std::uint32_t max_batched_tokens = 2048;
    std::uint64_t prefill_us_per_token = 20;
    std::uint64_t decode_us_per_token = 2'000;
    std::uint64_t seed = 0;
    std::uint32_t eos_after = 0;
};

struct Lora {
    std::int64_t id = 0;
    std::string name;
    std::string path;
};

// An image or the like: placeholder tokens of the prompt and what stands for its content.
struct MediaItem {
    std::size_t start = 0;
    std::size_t length = 0;
    std::array<std::uint8_t, 32> digest{};
};

struct GenerateRequest {
    std::vector<TokenId> prompt;
    Sampling sampling;
    std::optional<std::string> salt;
    const Lora* lora = nullptr;  // outlives the engine
    std::string session_id;
    std::vector<MediaItem> media;
    bool skips_cache = false;   // prompt_logprobs: every prompt token must be computed
    bool repeats_hits = false;  // kv_cache_report_mode "full"
    std::string id;             // the engine's own name for it
    std::shared_ptr<const HandoffAsk> handoff;
};

// The engine's side of one request and the mailbox of its output.
class Sequence;
class Generation {
public:
    // Steps made since the last call, oldest first.
    std::vector<Step> take();
    // Prompt tokens found in the cache when it was first scheduled.
    std::uint32_t cached_tokens() const;
    // Set before the last step, when something is kept for another engine.
    std::shared_ptr<const HandoffOffer> offer() const;
    // Whether its prompt came from another engine.
    bool was_fetched() const;

private:
    friend class Engine;
    mutable std::mutex mu_;
    std::vector<Step> steps_;                    // guarded by mu_
    std::uint32_t cached_tokens_ = 0;            // guarded by mu_
    std::shared_ptr<const HandoffOffer> offer_;  // guarded by mu_
    bool was_fetched_ = false;                   // guarded by mu_
    std::function<void()> notify_;               // guarded by mu_; empty once nobody listens
    std::shared_ptr<Sequence> sequence_;
};

class Engine {
public:
    Engine(const EngineOptions& options, const TextModel& model,
           std::unique_ptr<PrefixCache> cache);
    virtual ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    std::shared_ptr<Generation> submit(GenerateRequest request, std::function<void()> notify);
    // Ends it if it has not ended; `notify` is not called again once this returns.
    void abort(Generation& generation);

    // False while requests run, unless they may be preempted.
    bool reset_prefix_cache(bool preempts_running);
    void set_paused(bool paused);
    bool is_paused() const;

    EngineStats stats() const;
    // Waiting requests count four times: vLLM's balancer.
    std::uint64_t load_score() const;

protected:
    // For what a kind of engine tells of its cache; the lock must be held.
    std::unique_lock<std::mutex> lock() const { return std::unique_lock(mu_); }
    PrefixCache& cache() noexcept { return *cache_; }
    const PrefixCache& cache() const noexcept { return *cache_; }

    // For a kind of engine that hands over; the lock must be held for all of these. The desk is set
    // before the first request and taken away (null) before it goes.
    void set_desk(HandoffDesk* desk) noexcept { desk_ = desk; }
    EngineStats& counts() noexcept { return stats_; }
    // First time only: it is looked at from now on, with that much of it found here.
    void tell_scheduled(Sequence& s, std::uint32_t cached);
    // Its prompt is here, in blocks it holds: it computes next.
    void unpark(const std::shared_ptr<Sequence>& s, bool was_fetched, std::uint32_t cached);
    // It ends without a token; with `is_fatal` the engine ends after it has said so.
    void fail(Sequence& s, bool is_fatal);
    static void offer(Sequence& s, std::shared_ptr<const HandoffOffer> what);
    static std::uint32_t cached_tokens(const Sequence& s);
    void tell_usage();
    // Something may have become free.
    void wake() { work_.notify_one(); }

private:
    struct Work {
        std::shared_ptr<Sequence> sequence;
        std::uint32_t tokens = 0;
    };
    void run(const std::stop_token& stop);
    std::vector<Work> schedule();
    bool schedule_running(std::vector<Work>& step, std::uint32_t& budget);
    void schedule_waiting(std::vector<Work>& step, std::uint32_t& budget);
    bool admit(Sequence& s, std::uint32_t budget, std::uint32_t& tokens);
    void preempt_last();
    std::uint64_t duration_us(const std::vector<Work>& step) const;
    void tell_computed(const std::vector<Work>& step);
    void finish_step(const std::vector<Work>& step);
    void deliver(Sequence& s, Step made);
    void remove(Sequence& s);
    std::uint64_t expire();

    const EngineOptions options_;
    const TextModel& model_;

    mutable std::mutex mu_;
    std::condition_variable_any work_;
    std::unique_ptr<PrefixCache> cache_;              // guarded by mu_
    std::deque<std::shared_ptr<Sequence>> waiting_;   // guarded by mu_
    std::vector<std::shared_ptr<Sequence>> running_;  // guarded by mu_
    EngineStats stats_;                               // guarded by mu_
    std::vector<std::shared_ptr<Sequence>> parked_;   // guarded by mu_; wait for another engine
    HandoffDesk* desk_ = nullptr;                     // guarded by mu_
    bool is_paused_ = false;                          // guarded by mu_
    bool is_dying_ = false;                           // guarded by mu_
    std::jthread thread_;                             // last: it uses all of the above
};

}  // namespace sluice::sim
