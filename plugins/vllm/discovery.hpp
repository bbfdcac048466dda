// Where an engine publishes its KV events, or a gateway that publishes them again: the answer of
// GET /kv_event_sources, or the ports a rule names, made into addresses this gateway may connect
// to.
//
// An engine says where it bound as it sees itself (`*`, loopback, its own address). Whatever host
// it names, only the address the API is reached under is ever connected to, with the port from the
// answer; ipc:// only on the same machine.
//
// Threads: none of its own.
// Errors:  parse_sources() is empty on anything that is not the documented object; a source that
//          cannot be used says why.
// Source:  vLLM 0.31+ /kv_event_sources; the port rules of 0.9+ (rank r: port + r).
// Limits:  kMaxRanks.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/vllm/settings.hpp"

namespace sluice::vllm {

inline constexpr std::uint32_t kMaxRanks = 64;

// One rank's publisher, as the engine describes it.
struct Source {
    std::uint32_t rank = 0;
    bool enabled = false;
    std::string publisher;
    std::string endpoint;
    std::optional<std::string> replay_endpoint;
    std::string topic;
};

// Ordered by rank. An empty list: events are off.
std::optional<std::vector<Source>> parse_sources(std::string_view body);

// One rank as this gateway will follow it.
struct Feed {
    std::uint32_t rank = 0;
    std::string address;  // "tcp://10.0.0.7:5557"; empty: cannot be used
    std::string replay;   // empty: no replay
    std::string topic;
    bool may_connect_out =
        false;  // not an address that is surely bound: a refusal says it connects out
    bool ports_collide = false;  // another rank's publisher is on this rank's replay port
    std::string trouble;         // why address is empty

    bool operator==(const Feed&) const = default;
};

std::vector<Feed> feeds_of(const std::vector<Source>& sources, std::string_view own_address,
                           const Settings& settings);
// Without discovery: port + rank on the endpoint's own address.
std::vector<Feed> classic_feeds(std::string_view own_address, std::uint32_t ranks,
                                const Settings& settings);

// True for 127/8, ::1, their mapped form and "localhost"; brackets allowed.
bool is_loopback(std::string_view host) noexcept;

}  // namespace sluice::vllm
