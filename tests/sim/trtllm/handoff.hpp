// A prompt computed on one TensorRT-LLM and answered on another: what the two tell each other.
//
// The opaque state names where the context engine lets its blocks be read, and is of one request:
// who reads must show every byte of it.
//
// Threads: any; values.
// Errors:  empty where the text is no such state.
// Source:  contract section 4.2.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/engine/handoff.hpp"
#include "tests/sim/engine/kv_content.hpp"

namespace sluice::sim::trtllm {

struct TransferAsk final : HandoffAsk {
    // Context leg: what its blocks are kept under; 0: they are not.
    std::uint64_t id = 0;
    std::string state;              // base64, as in the reply
    bool holds_after_stop = false;  // even when the answer is complete
    // Generation leg: the prompt as it was computed elsewhere.
    bool is_received = false;
    BlockContent received;
};

// Blocks that wait for a generation engine to read them.
struct LeaseView {
    std::uint64_t id = 0;
    std::size_t blocks = 0;
    std::uint64_t age_us = 0;
    std::uint64_t left_us = 0;
};

struct Peer {
    std::string host;
    std::uint16_t port = 0;
};
// A new state, of a size as real ones have.
std::string make_state(const Peer& at, const std::string& engine_id);
std::optional<Peer> peer_of(std::string_view state);

std::string base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);
// Token ids as little-endian 32-bit numbers in base64.
std::string ids_in_base64(const std::vector<TokenId>& ids);
std::optional<std::vector<TokenId>> ids_from_base64(std::string_view text);

std::string packed(const BlockContent& content);
BlockContent unpacked(std::string_view bytes);

// The value of x-trtllm-disagg-auth for these fields, each as JSON.
std::string signature(std::string_view key, std::string_view endpoint, std::string_view state);

}  // namespace sluice::sim::trtllm
