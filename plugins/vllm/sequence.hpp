// Classifies the numbered batches of one (endpoint, rank) against what was taken before.
//
// A number below the expected one is either a batch that a replay brought first (same bytes) or the
// first sign of a restarted engine (other bytes), so recent batches are remembered by a
// fingerprint.
//
// Threads: none of its own.
// Errors:  none. Every input is classified.
// Units:   sequence numbers as published: 64-bit, +1 per batch, from 0 at each engine start.
// Source:  vLLM's ZMQ publisher, frame 1: 8 bytes, big-endian. 24 bytes (an open proposal) and any
//          other length are refused.
// Limits:  kRemembered fingerprints.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice::vllm {

enum class Arrival { InOrder, Duplicate, Gap, Restart };

class Sequence {
public:
    static constexpr std::size_t kRemembered = 512;

    Arrival classify(std::uint64_t seq, std::uint64_t print) const noexcept;
    // The batch was taken: the next expected number is seq + 1.
    void take(std::uint64_t seq, std::uint64_t print) noexcept;
    // True when `seq` was taken with these very bytes, of late.
    bool knows(std::uint64_t seq, std::uint64_t print) const noexcept;
    // True when `seq` was taken of late with other bytes: another engine process.
    bool contradicts(std::uint64_t seq, std::uint64_t print) const noexcept;
    // Numbers before `seq` will not come any more.
    void skip_to(std::uint64_t seq) noexcept { next_ = seq; }
    void restart() noexcept { *this = Sequence{}; }
    std::uint64_t next() const noexcept { return next_; }

private:
    struct Print {
        bool used = false;
        std::uint64_t seq = 0, print = 0;
    };
    std::uint64_t next_ = 0;
    std::array<Print, kRemembered> prints_{};
};

std::optional<std::uint64_t> read_sequence(std::span<const std::uint8_t> frame) noexcept;
std::array<std::uint8_t, 8> write_sequence(std::uint64_t seq) noexcept;
std::uint64_t fingerprint(std::span<const std::uint8_t> payload) noexcept;

}  // namespace sluice::vllm
