// vLLM's engine core: the shared one with vLLM's cache.
//
// Threads: as the shared one.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "tests/sim/engine/engine.hpp"
#include "tests/sim/vllm/block_cache.hpp"

namespace sluice::sim::vllm {

struct EngineOptions : sim::EngineOptions {
    CacheOptions cache;
};

class Engine final : public sim::Engine {
public:
    Engine(const EngineOptions& options, const TextModel& model, Publisher* publisher)
        : sim::Engine(options, model, std::make_unique<BlockCache>(options.cache, publisher)) {}

    // Findable hashes with their number of copies.
    std::vector<std::pair<Digest, std::size_t>> cached() const {
        const auto held = lock();
        return static_cast<const BlockCache&>(cache()).cached();
    }
};

}  // namespace sluice::sim::vllm
