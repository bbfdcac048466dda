// TensorRT-LLM's engine core: the shared one with TensorRT-LLM's cache, and its side of
// context/generation pairs. One for each attention-DP rank.
//
// Owns:    the blocks held for other engines.
// Threads: as the shared one; hand_over() from any.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/engine/engine.hpp"
#include "tests/sim/trtllm/handoff.hpp"
#include "tests/sim/trtllm/tree_cache.hpp"

namespace sluice::sim::trtllm {

struct EngineOptions : sim::EngineOptions {
    CacheOptions cache;
    std::uint64_t transfer_timeout_us = 60'000'000;
};

class Engine final : public sim::Engine, private HandoffDesk {
public:
    Engine(const EngineOptions& options, const TextModel& model, EventRing& ring,
           std::optional<std::uint32_t> rank);
    ~Engine() override;

    std::vector<std::pair<std::string, int>> stored() const {
        const auto held = lock();
        return tree().stored();
    }
    void skip_ids(std::uint64_t n) {
        const auto held = lock();
        tree().skip_ids(n);
    }

    enum class Read { Unknown, Differs, Done };
    // What is held under `id`, for who shows the state it was given with. It is then held no more.
    std::pair<Read, BlockContent> hand_over(std::uint64_t id, std::string_view state);
    std::vector<LeaseView> leases() const;

private:
    struct Lease {
        TreeCache::Kept kept;
        std::string state;
        std::uint64_t made_us = 0;
        std::uint64_t ends_us = 0;
    };
    TreeCache& tree() { return static_cast<TreeCache&>(cache()); }
    const TreeCache& tree() const { return static_cast<const TreeCache&>(cache()); }
    void end_lease(std::map<std::uint64_t, Lease>::iterator it);

    void queued(Sequence&) override {}
    Start start(const std::shared_ptr<Sequence>&) override { return Start::Computes; }
    void finished(Sequence& s, FinishReason reason) override;
    void left(Sequence&) override {}
    std::uint64_t expire() override;

    const std::uint64_t transfer_timeout_us_;
    std::map<std::uint64_t, Lease> leases_;  // under the engine's lock
};

}  // namespace sluice::sim::trtllm
