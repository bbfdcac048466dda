// Whether a block's hash is that of its tokens alone, as the base model's text blocks are.
//
// Events do not name LoRA adapters, and some builds hide salts: such a block looks like any other
// and may be told only by its hash. So a block whose hash is not the one recomputed here is no text
// block of the base model, whatever else it is. Nothing more is known of it: an adapter's block
// cannot be told from one of a hidden salt.
//
// A block hangs on its parent's hash, so each is checked alone; what hangs on a foreign block is
// told by its parent not being held.
//
// Threads: none of its own; event thread.
// Errors:  none.
// Source:  hashing.hpp.
#pragma once
#include <cstdint>
#include <optional>

#include "plugins/trtllm/events.hpp"

namespace sluice::trtllm {

// Goes through one stored event, block by block.
class BlockCheck {
public:
    explicit BlockCheck(const Event& event);
    // Whether block `i` is the base model's text. To be asked for each block in order.
    // v2_sha256_64 sends half of what its chain needs: below a parent nothing can be shown there.
    bool is_base_text(std::size_t i);

private:
    const Event& event_;
    std::optional<Digest> before_;  // v2: the digest that the next block hangs on
};

// The word on an engine's hashing, given once and when it changes.
enum class Attestation { Attested, Foreign };
class Attestor {
public:
    // Blocks that had none of the hashes looked for before the engine's hashing is doubted.
    static constexpr std::uint64_t kDoubtAfter = 8;

    std::optional<Attestation> see(std::uint64_t fitting, std::uint64_t foreign);
    void forget() { *this = Attestor{}; }

private:
    std::uint64_t foreign_ = 0;
    std::optional<Attestation> said_;
};

}  // namespace sluice::trtllm
