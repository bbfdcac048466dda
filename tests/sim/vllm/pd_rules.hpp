// What prefill/decode is like in one release, and what a request's kv_transfer_params ask for.
//
// Threads: any; values.
// Errors:  none; what an engine does not survive is said in the ask.
// Source:  vLLM contract, prefill/decode: field table and survival table, live on 0.32; captures
//          pd-*.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/engine/handoff.hpp"
#include "tests/sim/support/json.hpp"
#include "tests/sim/vllm/block_pool.hpp"

namespace sluice::sim::vllm {

enum class Connector : std::uint8_t { None, Nixl, Lmcache, Mooncake };

struct PdRules {
    Connector connector = Connector::None;
    std::uint32_t version = 32'000;  // 0.11.1 is 11001
    std::uint64_t lease_us = 0;      // 0 = never ends
    bool recomputes = false;         // kv_load_failure_policy
    std::uint64_t connect_us = 5'000'000;

    // Blocks go from engine to engine; a shared LMCache store is not modelled.
    bool transfers() const noexcept {
        return connector == Connector::Nixl || connector == Connector::Mooncake;
    }
    bool names_request() const noexcept { return version >= 13'000; }
    bool randomizes_ids() const noexcept { return version >= 14'000; }
    bool nests_blocks() const noexcept { return version >= 18'000; }
    bool hands_over_after_stop() const noexcept { return version >= 21'000; }
    bool renews_leases() const noexcept { return version >= 22'000; }
    bool reports_prefill_hits() const noexcept { return version >= 31'000; }
    // What the release has where nothing else was asked for.
    std::uint64_t usual_lease_us() const noexcept;
    bool usually_recomputes() const noexcept { return version < 17'000; }
};

std::optional<std::uint32_t> pd_version(std::string_view text) noexcept;

// Where a decode request's blocks are.
struct RemotePrefill {
    std::string engine_id;
    std::string request_id;
    std::string host;  // Mooncake: of the bootstrap server
    std::uint16_t port = 0;
    std::vector<BlockId> blocks;
    std::uint32_t cached_tokens = 0;  // prefill's own hits
    bool is_by_transfer_id = false;   // Mooncake: request_id is the transfer id
};

struct TransferAsk final : HandoffAsk {
    bool holds_blocks = false;  // do_remote_decode
    std::string transfer_id;    // Mooncake, prefill
    std::optional<RemotePrefill> remote;
    bool hangs = false;  // waits for blocks nobody was asked for; its abort ends the engine
    bool kills = false;
};
TransferAsk read_transfer(const PdRules& rules, const json::Value& body);

// What prefill's reply says of the blocks it holds.
struct Handoff final : HandoffOffer {
    std::string request_id, engine_id, host;
    std::uint16_t port = 0;
    std::vector<BlockId> blocks;
    std::uint32_t tokens = 0;
    std::uint32_t cached_tokens = 0;
};
// The `kv_transfer_params` of a plain reply; null when nothing is held.
void write_transfer(json::Writer& w, const PdRules& rules, const HandoffOffer* offer);

}  // namespace sluice::sim::vllm
