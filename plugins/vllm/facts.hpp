// What /version, /metrics and /v1/models tell about an engine.
//
// Threads: none of its own.
// Errors:  a parser is empty (or a field unset) where the text does not say.
// Units:   kv_used 0..1; tokens and requests are counts; epoch is any number that differs between
//          engine processes, 0 = not told.
// Source:  vLLM 0.9 to 0.32: GET /version, Prometheus text of GET /metrics (names with a colon, one
//          sample per label `engine`), GET /v1/models; tests/unit/plugin_vllm/facts_test.cpp holds
//          the text of a running 0.32.
// Limits:  kMaxRanks ranks, kMaxModels models; the caller bounds the text.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::vllm {

struct RankLoad {
    std::uint32_t running = 0, waiting = 0;
    std::optional<double> kv_used;
    std::uint64_t progress = 0;    // prompt and generated tokens together
    std::uint64_t hit_tokens = 0;  // prompt tokens found in the prefix cache
};

struct Metrics {
    std::map<std::uint32_t, RankLoad> ranks;  // only ranks whose load is told
    std::optional<std::uint32_t> block_size;
    std::optional<std::uint64_t> total_blocks;  // all ranks together
    std::optional<bool> prefix_caching;
    std::string hash_algorithm;  // as the engine names it; empty = not told
    std::optional<bool> asleep;
    std::uint64_t epoch = 0;
    // NIXL hand-offs that nobody read in time, and the reads that came too late; all ranks and
    // workers together, so more than once each.
    std::optional<std::uint64_t> holds_expired, holds_read_late;
};

Metrics parse_metrics(std::string_view text);
std::optional<std::string> parse_version(std::string_view body);

struct Model {
    std::string name, parent, path;  // parent empty: a base model; path: `root`
    std::uint32_t max_tokens = 0;    // 0 = not told
};
inline constexpr std::size_t kMaxModels = 4096;
std::optional<std::vector<Model>> parse_models(std::string_view body);

}  // namespace sluice::vllm
