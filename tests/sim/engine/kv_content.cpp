#include "tests/sim/engine/kv_content.hpp"

namespace sluice::sim {

void Readout::read(const Slot& slot) noexcept {
    const std::uint64_t after = next_state(slot.before, static_cast<TokenId>(slot.token));
    // Foreign KV is attended to as well; it is mixed in, never skipped.
    state_ = slot.before == state_ ? after : next_state(state_ ^ after, ~TokenId{0});
}

Slot Readout::write(TokenId token) noexcept {
    const Slot slot{state_, token};
    state_ = next_state(state_, token);
    return slot;
}

}  // namespace sluice::sim
