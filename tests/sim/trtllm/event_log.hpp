// The event manager of one rank: numbers events, batches evictions, and hands them to the ring.
//
// Threads: the engine's lock, but skip_ids(), which any thread may call.
// Errors:  none.
// Source:  contract sections 2.3 and 2.4; tests/vectors/trtllm_kv_events.jsonl.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/trtllm/block_key.hpp"
#include "tests/sim/trtllm/era.hpp"
#include "tests/sim/trtllm/event_ring.hpp"

namespace sluice::sim::trtllm {

// Which pool an event is about.
struct PoolName {
    std::uint32_t window = 0;
    std::uint32_t group = 0;  // told by the v2 manager only
};

struct StoredBlock {
    std::string hash;  // wire form
    std::vector<Element> tokens;
    std::vector<MmKey> mm_keys;
};

class EventLog {
public:
    struct Form {
        Era era = Era::V1_3Late;
        Manager manager = Manager::V1;
        HashAlgorithm algorithm = HashAlgorithm::V1BlockKey;
        std::optional<std::uint32_t> rank;  // told under attention DP
    };
    EventLog(EventRing& ring, const Form& form) : ring_(ring), form_(form) {}

    void created(const PoolName& pool, std::uint64_t primary, std::uint64_t secondary);
    // `parent` in wire form, empty for a chain that starts at the root.
    void stored(const PoolName& pool, const std::string& parent,
                const std::vector<StoredBlock>& blocks, const std::optional<std::string>& salt);
    void removed(const PoolName& pool, std::string hash);
    void updated(const PoolName& pool, const std::string& hash, int old_level, int new_level);
    // The iteration ended: everything becomes visible.
    void flush();
    // Numbers that no event will have: what a reader takes for a loss.
    void skip_ids(std::uint64_t n) { next_id_ += n; }

private:
    struct Batch {
        PoolName pool;
        std::vector<std::string> hashes;
    };
    void push(const PoolName& pool, const std::string& data);
    void flush_removed(const PoolName* only);

    EventRing& ring_;
    const Form form_;
    std::atomic<std::uint64_t> next_id_{0};
    std::vector<Batch> removed_;
    std::vector<std::string> ready_;
};

}  // namespace sluice::sim::trtllm
