#include "core/base/clock.hpp"

#include <ctime>

namespace sluice {
namespace {

std::uint64_t read(clockid_t clock) noexcept {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000U +
           static_cast<std::uint64_t>(t.tv_nsec) / 1'000U;
}

}  // namespace

std::uint64_t now_us() noexcept {
    return read(CLOCK_MONOTONIC);
}

std::uint64_t wall_us() noexcept {
    return read(CLOCK_REALTIME);
}

}  // namespace sluice
