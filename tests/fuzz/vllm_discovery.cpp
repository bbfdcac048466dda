// Any text as the answers of an engine's small endpoints: sources, version, models, metrics.
#include <cstdlib>

#include "plugins/vllm/discovery.hpp"
#include "plugins/vllm/facts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto sources = sluice::vllm::parse_sources(text)) {
        for (const auto& feed : sluice::vllm::feeds_of(*sources, "10.0.0.7", {})) {
            // Never anyone but the endpoint itself.
            const bool own = feed.address.starts_with("tcp://10.0.0.7:") || feed.address.empty();
            const bool own_replay =
                feed.replay.starts_with("tcp://10.0.0.7:") || feed.replay.empty();
            if (!own || !own_replay || feed.address.empty() == feed.trouble.empty()) {
                std::abort();
            }
        }
    }
    (void)sluice::vllm::parse_version(text);
    (void)sluice::vllm::parse_models(text);
    const auto metrics = sluice::vllm::parse_metrics(text);
    if (metrics.ranks.size() > sluice::vllm::kMaxRanks) {
        std::abort();
    }
    return 0;
}
