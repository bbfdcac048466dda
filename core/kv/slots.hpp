// Where a 64-bit number goes in a table of any size, and which sizes tables take.
//
// Threads: any.
#pragma once
#include <array>
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
// average. Each segment climbs every sixteenth rung of one ladder of sizes from a start of its own,
// so that they do not all grow at one time.
constexpr bool is_crowded(std::uint64_t used, std::uint32_t capacity) noexcept {
    return used * 5 > std::uint64_t{capacity} * 4;
}

inline constexpr std::uint32_t kRungStep = 16;
inline constexpr std::uint32_t kRungs = 88 * kRungStep;

// Sizes are multiples of 4: the slots of a cache line in BlockTable.
inline constexpr std::array<std::uint32_t, kRungs> kCapacities = [] {
    std::array<std::uint32_t, kRungs> out{};
    double size = 8;
    for (std::uint32_t& capacity : out) {
        capacity = static_cast<std::uint32_t>(size) / 4 * 4;
        size *= 1.014044;  // the sixteenth root of 1.25
    }
    return out;
}();

constexpr std::uint32_t rung_for(std::uint64_t live, std::uint32_t segment) noexcept {
    std::uint32_t rung = segment % kRungStep;
    while (rung + kRungStep < kRungs && std::uint64_t{kCapacities[rung]} * 18 < (live + 1) * 25) {
        rung += kRungStep;
    }
    return rung;
}

}  // namespace sluice::kv
