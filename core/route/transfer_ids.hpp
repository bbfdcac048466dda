// Numbers for hand-offs between two engines: a new one for each attempt, never the same from two
// gateways of one pool.
//
// Threads: any.
// Limits:  2^42 <= id < 2^63; of one process unique for 2^22 ids a millisecond.
// Source:  TensorRT-LLM contract, disagg_request_id (smaller ids are a worker's own); SDK, engine
//          adapter (sluice_leg::transfer_id).
#pragma once
#include <atomic>
#include <cstdint>

namespace sluice::route {

class TransferIds {
public:
    TransferIds() noexcept;
    TransferIds(std::uint64_t start, std::uint64_t stride) noexcept
        : start_(start), stride_(stride | 1U) {}

    std::uint64_t next(std::uint64_t wall_us) noexcept;

private:
    // Each process walks the numbers of a millisecond in an order of its own.
    const std::uint64_t start_;
    const std::uint64_t stride_;  // odd, so that every number is met
    std::atomic<std::uint64_t> count_{0};
};

// The ids of this process.
TransferIds& transfer_ids() noexcept;

}  // namespace sluice::route
