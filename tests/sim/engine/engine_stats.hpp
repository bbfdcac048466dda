// What one engine core counts; the source of the vllm: metrics.
//
// Threads: values, copied under the engine's lock.
// Units:   seconds in durations, tokens elsewhere.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace sluice::sim {

// A histogram's raw numbers; the last count is of what is above every bound.
struct Distribution {
    const std::vector<double>* bounds = nullptr;
    std::vector<std::uint64_t> counts;
    std::uint64_t count = 0;
    double sum = 0;

    explicit Distribution(const std::vector<double>& upper);
    void add(double v);
};

struct EngineStats {
    EngineStats();

    std::uint64_t running = 0;
    std::uint64_t waiting = 0;
    double cache_usage = 0;  // 0 to 1
    std::uint64_t cache_queries = 0;
    std::uint64_t cache_hits = 0;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t generation_tokens = 0;
    std::uint64_t preemptions = 0;
    std::uint64_t stopped = 0;
    std::uint64_t cut = 0;  // finished by length
    std::uint64_t failed = 0;
    std::uint64_t external_queries = 0;  // tokens asked of other engines, and got
    std::uint64_t external_hits = 0;
    std::uint64_t kv_expired = 0;    // leases that ran out
    std::uint64_t kv_read = 0;       // leases that a notice ended
    std::uint64_t late_notices = 0;  // of requests not held (any more)
    std::uint64_t failed_transfers = 0;

    Distribution request_prompt_tokens;
    Distribution request_generation_tokens;
    Distribution iteration_tokens;
    Distribution first_token_s;
    Distribution inter_token_s;
    Distribution e2e_s;
    Distribution queue_s;
    Distribution prefill_s;
    Distribution decode_s;
};

}  // namespace sluice::sim
