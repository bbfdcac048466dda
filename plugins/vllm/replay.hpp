// The frames of vLLM's replay socket: what a DEALER sends and what it gets back.
//
// Threads: none of its own.
// Errors:  ReplayReply::Kind::Malformed for any other shape.
// Source:  vLLM 0.9 to 0.32, replay ROUTER: up to 0.24 a reply is ("", seq, payload), from 0.26
//          ("", topic, seq, payload), told apart by the frame count; the end marker has sequence
//          2^64 - 1 and an empty payload.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "sluice/sdk.hpp"

namespace sluice::vllm {

struct ReplayReply {
    enum class Kind { Batch, End, Malformed };
    Kind kind = Kind::Malformed;
    std::uint64_t seq = 0;
    std::span<const std::uint8_t> payload;
};

ReplayReply read_replay(std::span<const sluice_bytes> frames) noexcept;

// The request's two frames, an empty delimiter (the DEALER's own business) and the first sequence
// wanted; `buffer` holds the bytes.
std::array<sluice_bytes, 2> write_replay(std::uint64_t from,
                                         std::array<std::uint8_t, 8>& buffer) noexcept;

}  // namespace sluice::vllm
