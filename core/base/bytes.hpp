// Fixed-width integers in byte strings.
//
// Threads: any.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

// Reads the first 8 bytes of `in`, which must hold that many.
inline std::uint64_t load_be64(std::span<const std::uint8_t> in) noexcept {
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        v = v << 8U | in[i];
    }
    return v;
}

inline void store_be64(std::uint64_t v, std::span<std::uint8_t> out) noexcept {
    for (std::size_t i = 0; i < 8; ++i) {
        out[7 - i] = static_cast<std::uint8_t>(v >> (8U * i));
    }
}

}  // namespace sluice
