#include "plugins/vllm/replay.hpp"

#include "plugins/vllm/sequence.hpp"

namespace sluice::vllm {

ReplayReply read_replay(std::span<const sluice_bytes> frames) noexcept {
    if ((frames.size() != 3 && frames.size() != 4) || frames[0].len != 0) {
        return {};
    }
    const auto seq = read_sequence(view(frames[frames.size() - 2]));
    if (!seq) {
        return {};
    }
    ReplayReply reply;
    reply.seq = *seq;
    reply.payload = view(frames.back());
    if (*seq == UINT64_MAX) {
        reply.kind = reply.payload.empty() ? ReplayReply::Kind::End : ReplayReply::Kind::Malformed;
    } else {
        reply.kind = ReplayReply::Kind::Batch;
    }
    return reply;
}

std::array<sluice_bytes, 2> write_replay(std::uint64_t from,
                                         std::array<std::uint8_t, 8>& buffer) noexcept {
    buffer = write_sequence(from);
    return {sluice_bytes{nullptr, 0}, sluice_bytes{buffer.data(), buffer.size()}};
}

}  // namespace sluice::vllm
