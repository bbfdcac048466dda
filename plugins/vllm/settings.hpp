// The rule fields this adapter takes, and what a schema cannot say about them.
//
// A field the operator did not write declares nothing: no default is filled in for ports, block
// size, algorithm and seed, so that "given" and "absent" stay apart.
//
// Threads: control.
// Errors:  parse() throws Failure(SLUICE_E_CONFIG); check() speaks through the verdict.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugins/vllm/hashing.hpp"
#include "plugins/vllm/pd.hpp"
#include "sluice/sdk.hpp"

namespace sluice::vllm {

inline constexpr std::uint32_t kDefaultPort = 5557;
inline constexpr std::uint32_t kReplayOffset = 1000;
inline constexpr std::uint16_t kBootstrapPort = 8998;  // Mooncake's

struct Settings {
    std::optional<std::uint16_t> zmq_port;     // absent, or 0: discovered, else 5557
    std::optional<std::uint16_t> replay_port;  // 0: no replay socket
    std::optional<std::uint32_t> block_size;
    std::optional<Algorithm> algorithm;
    std::optional<std::string> seed;
    std::optional<std::uint32_t> ranks;
    bool discovery = true;
    Connector connector = Connector::Nixl;
    std::uint64_t lease_us = 0;  // the engines' kv_lease_duration; 0 = what their version has
    std::uint16_t bootstrap_port = kBootstrapPort;
    // Another gateway's base URL, without a final slash; empty: events come from the engine. Given,
    // the gateway alone says where to listen: ports and ranks above are empty, discovery is on.
    std::string events_from;
    // "10.0.0.9" of "http://10.0.0.9:11111"; brackets stay.
    std::string events_host() const;
};

Settings parse_settings(std::string_view config);
void check_rule(const sluice_proposal& in, Verdict& out);

}  // namespace sluice::vllm
