#include "core/base/random.hpp"

#include <array>
#include <cstdio>
#include <random>
#include <string_view>

namespace sluice {
namespace {

std::mt19937_64& generator() {
    thread_local std::mt19937_64 g = [] {
        std::random_device device;
        std::seed_seq seed{device(), device(), device(), device()};
        return std::mt19937_64(seed);
    }();
    return g;
}

}  // namespace

std::uint64_t random_u64() noexcept {
    return generator()();
}

std::string random_hex_id() {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out(32, '0');
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (i % 16 == 0) {
            bits = random_u64();
        }
        out[i] = kDigits[bits & 0xFU];
        bits >>= 4U;
    }
    return out;
}

std::string random_uuid() {
    std::uint64_t a = random_u64();
    std::uint64_t b = random_u64();
    a = (a & 0xFFFFFFFFFFFF0FFFULL) | 0x4000ULL;
    b = (b & 0x3FFFFFFFFFFFFFFFULL) | 0x8000000000000000ULL;
    std::array<char, 37> text{};
    std::snprintf(text.data(), text.size(), "%08x-%04x-%04x-%04x-%012llx",
                  static_cast<unsigned>(a >> 32U), static_cast<unsigned>(a >> 16U & 0xFFFFU),
                  static_cast<unsigned>(a & 0xFFFFU), static_cast<unsigned>(b >> 48U),
                  static_cast<unsigned long long>(b & 0xFFFFFFFFFFFFULL));
    return {text.data(), 36};
}

}  // namespace sluice
