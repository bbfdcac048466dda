#include "plugins/vllm/sequence.hpp"

#include <xxhash.h>

namespace sluice::vllm {

Arrival Sequence::classify(std::uint64_t seq, std::uint64_t print) const noexcept {
    if (seq == next_) {
        return Arrival::InOrder;
    }
    if (seq > next_) {
        return Arrival::Gap;
    }
    return knows(seq, print) ? Arrival::Duplicate : Arrival::Restart;
}

void Sequence::take(std::uint64_t seq, std::uint64_t print) noexcept {
    prints_[seq % kRemembered] = {true, seq, print};
    next_ = seq + 1;
}

bool Sequence::knows(std::uint64_t seq, std::uint64_t print) const noexcept {
    const Print& p = prints_[seq % kRemembered];
    return p.used && p.seq == seq && p.print == print;
}

bool Sequence::contradicts(std::uint64_t seq, std::uint64_t print) const noexcept {
    const Print& p = prints_[seq % kRemembered];
    return p.used && p.seq == seq && p.print != print;
}

std::optional<std::uint64_t> read_sequence(std::span<const std::uint8_t> frame) noexcept {
    if (frame.size() != 8) {
        return std::nullopt;
    }
    std::uint64_t value = 0;
    for (std::uint8_t byte : frame) {
        value = value << 8U | byte;
    }
    return value;
}

std::array<std::uint8_t, 8> write_sequence(std::uint64_t seq) noexcept {
    std::array<std::uint8_t, 8> out{};
    for (std::size_t i = 0; i < 8; ++i) {
        out[i] = static_cast<std::uint8_t>(seq >> (56U - 8U * i));
    }
    return out;
}

std::uint64_t fingerprint(std::span<const std::uint8_t> payload) noexcept {
    return XXH3_64bits(payload.data(), payload.size());
}

}  // namespace sluice::vllm
