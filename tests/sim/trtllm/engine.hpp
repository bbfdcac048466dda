// TensorRT-LLM's engine core: the shared one with TensorRT-LLM's cache. One for each
// attention-DP rank.
//
// Threads: as the shared one.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/engine/engine.hpp"
#include "tests/sim/trtllm/tree_cache.hpp"

namespace sluice::sim::trtllm {

struct EngineOptions : sim::EngineOptions {
    CacheOptions cache;
};

class Engine final : public sim::Engine {
public:
    Engine(const EngineOptions& options, const TextModel& model, EventRing& ring,
           std::optional<std::uint32_t> rank)
        : sim::Engine(options, model, std::make_unique<TreeCache>(options.cache, ring, rank)) {}

    std::vector<std::pair<std::string, int>> stored() const {
        const auto held = lock();
        return tree().stored();
    }
    void skip_ids(std::uint64_t n) {
        const auto held = lock();
        tree().skip_ids(n);
    }

private:
    TreeCache& tree() { return static_cast<TreeCache&>(cache()); }
    const TreeCache& tree() const { return static_cast<const TreeCache&>(cache()); }
};

}  // namespace sluice::sim::trtllm
