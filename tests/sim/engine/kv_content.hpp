// What lies in a KV block: which token was computed there, and on top of what.
//
// A model that reads KV of its own prompt comes to the state the tokens alone give. KV of anything
// else changes the state for good, wherever it stood, so wrong KV is a wrong text and not an error.
//
// Threads: none of its own; values.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/sim/engine/sampling.hpp"

namespace sluice::sim {

struct Slot {
    std::uint64_t before = 0;  // the state its token was computed on
    std::uint64_t token = 0;
};
using BlockContent = std::vector<Slot>;

class Readout {
public:
    explicit Readout(std::uint64_t seed = 0) : state_(start_state(seed)) {}
    // Attends to what is there.
    void read(const Slot& slot) noexcept;
    // Computes a token on top of all that was read.
    Slot write(TokenId token) noexcept;
    std::uint64_t state() const noexcept { return state_; }

private:
    std::uint64_t state_;
};

}  // namespace sluice::sim
