// vLLM's engine core: the shared one with vLLM's cache, and its side of prefill/decode pairs.
//
// Owns:    the link to other engines and the blocks held for them.
// Threads: as the shared one; the link's worker calls back.
// Errors:  start_link() says why it cannot listen.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/engine/engine.hpp"
#include "tests/sim/vllm/block_cache.hpp"
#include "tests/sim/vllm/kv_link.hpp"
#include "tests/sim/vllm/pd_rules.hpp"

namespace sluice::sim::vllm {

struct EngineOptions : sim::EngineOptions {
    CacheOptions cache;
    PdRules pd;
};

// Blocks that wait for a decode engine to read them.
struct LeaseView {
    std::string request_id;
    std::size_t blocks = 0;
    std::uint64_t age_us = 0;
    std::optional<std::uint64_t> left_us;  // empty: without an end
};

class Engine final : public sim::Engine, private HandoffDesk {
public:
    Engine(const EngineOptions& options, const TextModel& model, Publisher* publisher)
        : sim::Engine(options, model, std::make_unique<BlockCache>(options.cache, publisher)),
          pd_(options.pd),
          block_size_(options.cache.block_size) {}
    ~Engine() override;

    // Findable hashes with their number of copies.
    std::vector<std::pair<Digest, std::size_t>> cached() const {
        const auto held = lock();
        return static_cast<const BlockCache&>(cache()).cached();
    }

    // Before the first request: listens for other engines, where the connector transfers.
    Status start_link(const std::string& host, std::uint16_t port);
    const KvLink* link() const noexcept { return link_.get(); }
    std::vector<LeaseView> leases() const;

private:
    struct Lease {
        std::vector<BlockId> blocks;
        std::uint64_t made_us = 0;
        std::uint64_t ends_us = 0;  // 0 = never
    };
    BlockCache& blocks() noexcept { return static_cast<BlockCache&>(cache()); }
    KvLink::Store store();
    void finish_pull(const std::shared_ptr<Sequence>& s, KvLink::Pulled pulled);
    void end_lease(const std::string& id);

    void queued(Sequence& s) override;
    Start start(const std::shared_ptr<Sequence>& s) override;
    void finished(Sequence& s, FinishReason reason) override;
    void left(Sequence& s) override;
    std::uint64_t expire() override;

    const PdRules pd_;
    const std::uint32_t block_size_;
    std::map<std::string, Lease> leases_;  // under the engine's lock
    std::unique_ptr<KvLink> link_;
};

}  // namespace sluice::sim::vllm
