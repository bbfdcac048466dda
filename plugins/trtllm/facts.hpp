// What /version, /v1/models and /prometheus/metrics tell about an engine.
//
// Never /metrics, /perf_metrics or /health_generate: the first two take statistics away from
// whoever else reads them, the third runs a request.
//
// Threads: none of its own; no state.
// Errors:  a parser is empty (or a member unset) where the text does not say.
// Units:   kv_used 0..1; the rest are counts.
// Source:  trtllm-serve 0.21 to 1.3; the Prometheus names with their prefix `trtllm_`, of which
// each
//          build has some.
// Limits:  kMaxModels models; the caller bounds the text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::trtllm {

std::optional<std::string> parse_version(std::string_view body);

inline constexpr std::size_t kMaxModels = 64;
// Names of models. The engine lists no adapters.
std::optional<std::vector<std::string>> parse_models(std::string_view body);

struct Load {
    std::optional<std::uint32_t> running;  // not told by every build
    std::uint32_t waiting = 0;
    std::optional<double> kv_used;
    std::uint64_t total_blocks = 0;
    std::uint64_t progress = 0;    // requests and tokens that are done
    std::uint64_t hit_tokens = 0;  // prompt tokens found in the cache
};
Load parse_load(std::string_view prometheus_text);

}  // namespace sluice::trtllm
