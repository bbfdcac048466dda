// One engine core (one data-parallel rank): queue, scheduler, paged cache, model.
//
// A step takes running requests first, then waiting ones while slots, tokens and blocks last; it
// lasts as long as its uncached prompt tokens and its decoding cost, then every request whose
// tokens are all computed gets one more.
//
// Owns:    its thread and its block pool.
// Threads: submit, abort and the control calls from any; steps on the engine's own. `notify` runs
//          on the engine's thread and must not call back.
// Errors:  none: requests were validated before. A prompt always fits (checked at start).
// Limits:  waiting requests are unbounded, as in the engine; each is bounded by the context length.
// Source:  vLLM 0.32 scheduler and KV cache manager; contract sections 1.5 and 2.1.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/vllm/block_pool.hpp"
#include "tests/sim/vllm/engine_stats.hpp"
#include "tests/sim/vllm/publisher.hpp"
#include "tests/sim/vllm/sampling.hpp"

namespace sluice::sim::vllm {

struct EngineOptions {
    std::uint32_t block_size = 32;
    std::uint32_t blocks = 1024;
    std::uint32_t max_num_seqs = 16;
    std::uint32_t max_batched_tokens = 2048;
    bool caches_prefixes = true;
    bool tags_extra_keys = true;  // 0.31 and later
    HashAlgorithm algorithm = HashAlgorithm::Sha256;
    Digest none_hash{};
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

struct GenerateRequest {
    std::vector<TokenId> prompt;
    Sampling sampling;
    std::string salt;
    const Lora* lora = nullptr;  // outlives the engine
    std::string session_id;
    bool skips_cache = false;   // prompt_logprobs: every prompt token must be computed
    bool repeats_hits = false;  // kv_cache_report_mode "full"
};

// The engine's side of one request and the mailbox of its output.
class Sequence;
class Generation {
public:
    // Steps made since the last call, oldest first.
    std::vector<Step> take();
    // Prompt tokens found in the cache when it was first scheduled.
    std::uint32_t cached_tokens() const;

private:
    friend class Engine;
    mutable std::mutex mu_;
    std::vector<Step> steps_;          // guarded by mu_
    std::uint32_t cached_tokens_ = 0;  // guarded by mu_
    std::function<void()> notify_;     // guarded by mu_; empty once nobody listens
    std::shared_ptr<Sequence> sequence_;
};

class Engine {
public:
    Engine(const EngineOptions& options, const TextModel& model, Publisher* publisher);
    ~Engine();
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
    std::vector<std::pair<Digest, std::size_t>> cached() const;
    // Waiting requests count four times: vLLM's balancer.
    std::uint64_t load_score() const;

private:
    struct Work {
        std::shared_ptr<Sequence> sequence;
        std::uint32_t tokens = 0;
    };
    void run(const std::stop_token& stop);
    std::vector<Work> schedule();
    bool schedule_running(std::vector<Work>& step, std::uint32_t& budget);
    void schedule_waiting(std::vector<Work>& step, std::uint32_t& budget);
    bool grow(Sequence& s, std::uint32_t tokens);
    bool admit(Sequence& s, std::uint32_t budget, std::uint32_t& tokens);
    std::vector<BlockId> lookup(Sequence& s);
    void cache_full_blocks(Sequence& s, std::uint32_t upto);
    void extend_hashes(Sequence& s) const;
    void add_stored(const Sequence& s, std::size_t first, std::size_t end);
    void preempt_last();
    std::uint64_t duration_us(const std::vector<Work>& step) const;
    void finish_step(const std::vector<Work>& step);
    void deliver(Sequence& s, Step made);
    void remove(const Sequence& s);

    const EngineOptions options_;
    const TextModel& model_;
    Publisher* publisher_;

    mutable std::mutex mu_;
    std::condition_variable_any work_;
    BlockPool pool_;                                  // guarded by mu_
    std::deque<std::shared_ptr<Sequence>> waiting_;   // guarded by mu_
    std::vector<std::shared_ptr<Sequence>> running_;  // guarded by mu_
    EngineStats stats_;                               // guarded by mu_
    bool is_paused_ = false;                          // guarded by mu_
    std::jthread thread_;
};

}  // namespace sluice::sim::vllm
