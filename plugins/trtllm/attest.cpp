#include "plugins/trtllm/attest.hpp"

#include <span>

#include "plugins/trtllm/hashing.hpp"

namespace sluice::trtllm {

BlockCheck::BlockCheck(const Event& event) : event_(event) {
    if (event.algo != HashAlgo::V1BlockKey && event.algo != HashAlgo::Other) {
        before_ = event.parent ? event.parent_digest : v2_root({});
    }
}

bool BlockCheck::is_base_text(std::size_t i) {
    const Block& block = event_.blocks[i];
    const auto tokens =
        std::span<const std::uint32_t>(event_.tokens).subspan(block.first_token, block.num_tokens);
    const std::uint64_t said = event_.hashes[i];
    switch (event_.algo) {
        case HashAlgo::V1BlockKey: {
            const std::uint64_t parent = i > 0 ? event_.hashes[i - 1] : event_.parent.value_or(0);
            return v1_block(parent, tokens) == said;
        }
        case HashAlgo::V2Sha256:
        case HashAlgo::V2Sha256Short: {
            if (!before_) {
                return false;
            }
            before_ = v2_block(*before_, tokens);
            const bool is_whole = event_.digests.size() == event_.hashes.size();
            return before_ && (is_whole ? *before_ == event_.digests[i] : folded(*before_) == said);
        }
        case HashAlgo::Other:
            break;
    }
    return false;
}

std::optional<Attestation> Attestor::see(std::uint64_t fitting, std::uint64_t foreign) {
    foreign_ += foreign;
    const auto now = fitting != 0 || said_ == Attestation::Attested
                         ? std::optional(Attestation::Attested)
                     : foreign_ >= kDoubtAfter ? std::optional(Attestation::Foreign)
                                               : std::nullopt;
    if (!now || now == said_) {
        return std::nullopt;
    }
    said_ = now;
    return now;
}

}  // namespace sluice::trtllm
