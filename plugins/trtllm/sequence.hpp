// Classifies the event numbers of one (endpoint, rank) against what came before.
//
// Threads: none of its own.
// Errors:  none. Every number is classified.
// Units:   event_id as sent: 64 bits, +1 an event, from 0 at each start of the engine, counted
// apart
//          by each attention-DP rank over all its windows and layer groups.
// Source:  trtllm-serve 0.21 to 1.3; tests/vectors/trtllm_kv_events.jsonl.
#pragma once
#include <cstdint>
#include <optional>

namespace sluice::trtllm {

enum class Arrival {
    First,     // number 0 on a rank not heard before
    LateJoin,  // a first number above 0: what came before is not known
    InOrder,
    Gap,  // numbers are missing: the ring overflowed, another consumer took them, or a lost reply
    Regression  // the number or one before it was seen: another engine process
};

class Sequence {
public:
    // Classifies `id` and advances past it.
    Arrival accept(std::uint64_t id) noexcept {
        const auto expected = next_;
        next_ = id + 1;
        if (!expected) {
            return id == 0 ? Arrival::First : Arrival::LateJoin;
        }
        return id == *expected  ? Arrival::InOrder
               : id > *expected ? Arrival::Gap
                                : Arrival::Regression;
    }
    // Empty before the first event, and after a drain was lost.
    std::optional<std::uint64_t> next() const noexcept { return next_; }
    void continue_at(std::optional<std::uint64_t> next) noexcept { next_ = next; }

private:
    std::optional<std::uint64_t> next_;
};

}  // namespace sluice::trtllm
