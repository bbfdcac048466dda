#include "core/route/transfer_ids.hpp"

#include <algorithm>

#include "core/base/random.hpp"

namespace sluice::route {
namespace {

constexpr unsigned kLowBits = 22;
constexpr std::uint64_t kLowMask = (std::uint64_t{1} << kLowBits) - 1;
constexpr std::uint64_t kSinceMs = 1'735'689'600'000;  // 2025-01-01; lasts until 2094
constexpr std::uint64_t kMaxMs = (std::uint64_t{1} << 41U) - 1;

}  // namespace

TransferIds::TransferIds() noexcept : TransferIds(random_u64(), random_u64()) {}

std::uint64_t TransferIds::next(std::uint64_t wall_us) noexcept {
    const std::uint64_t now_ms = wall_us / 1000;
    // A clock that stands before that day still gives ids that are no worker's own.
    const std::uint64_t least = std::uint64_t{1} << (42U - kLowBits);
    const std::uint64_t ms = std::clamp(now_ms - std::min(now_ms, kSinceMs), least, kMaxMs);
    const std::uint64_t low =
        (start_ + count_.fetch_add(1, std::memory_order_relaxed) * stride_) & kLowMask;
    return ms << kLowBits | low;
}

TransferIds& transfer_ids() noexcept {
    static TransferIds ids;
    return ids;
}

}  // namespace sluice::route
