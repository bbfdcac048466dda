#include "core/base/clock.hpp"

#include <array>
#include <cstdio>
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

std::string rfc3339(std::uint64_t wall_us) {
    const auto seconds = static_cast<std::time_t>(wall_us / 1'000'000U);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    std::array<char, 32> day{};
    std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    std::array<char, 16> fraction{};
    std::snprintf(fraction.data(), fraction.size(), ".%06uZ",
                  static_cast<unsigned>(wall_us % 1'000'000U));
    return std::string(day.data()) + fraction.data();
}

}  // namespace sluice
