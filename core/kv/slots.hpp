// Where a 64-bit number goes in a table of any size, and which sizes tables take.
//
// Threads: any.
#pragma once
#include <cstdint>

namespace sluice::kv {

// Engine hashes may be as regular as 1, 2, 3: spread them.
constexpr std::uint64_t spread(std::uint64_t v) noexcept {
    v ^= v >> 32;
    v *= 0x9E3779B97F4A7C15ULL;
    v ^= v >> 29;
    v *= 0xBF58476D1CE4E5B9ULL;
    return v;
}

// Maps 32 bits to [0, capacity) in order, so that rehashing walks both arrays once.
constexpr std::uint32_t scale(std::uint64_t bits32, std::uint32_t capacity) noexcept {
    return static_cast<std::uint32_t>((bits32 & 0xFFFFFFFFU) * capacity >> 32);
}

// Tables are cut into segments that grow alone, by a quarter when four fifths full: 72 % load on
// average. Each segment climbs its own ladder of sizes, so that they do not all grow at one time.
constexpr bool is_crowded(std::uint64_t used, std::uint32_t capacity) noexcept {
    return used * 5 > std::uint64_t{capacity} * 4;
}

constexpr std::uint32_t ladder_capacity(std::uint64_t live, std::uint32_t segment,
                                        std::uint32_t segments) noexcept {
    double rung = 8.0 + 2.0 * segment / segments;
    while (rung * 0.72 < static_cast<double>(live + 1)) {
        rung *= 1.25;
    }
    return static_cast<std::uint32_t>(rung);
}

}  // namespace sluice::kv
