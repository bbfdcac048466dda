// What an engine core asks of its part in hand-offs: a prompt computed on one engine, answered on
// another. Each simulated engine that hands over has its own; one that does not has none.
//
// Threads: none of its own; every call under the engine's lock.
#pragma once
#include <cstdint>
#include <memory>

#include "tests/sim/engine/sampling.hpp"

namespace sluice::sim {

class Sequence;

// What a request asks for, read from its body.
struct HandoffAsk {
    virtual ~HandoffAsk() = default;
};
// What a finished request leaves for another engine, told in its reply.
struct HandoffOffer {
    virtual ~HandoffOffer() = default;
};

class HandoffDesk {
public:
    enum class Start {
        Computes,  // nothing of another engine's is wanted
        Parks,     // it waits for what another engine has; Engine::unpark() or fail() ends that
        Waits,     // as many blocks are not free now
        Kills,     // the engine does not survive it
    };
    virtual ~HandoffDesk() = default;

    // It joined the queue.
    virtual void queued(Sequence& s) = 0;
    // It stands first in the queue and there is room for it.
    virtual Start start(const std::shared_ptr<Sequence>& s) = 0;
    // It ended with its last token; its blocks may be kept.
    virtual void finished(Sequence& s, FinishReason reason) = 0;
    // It is gone, whatever it waited for; called once for each.
    virtual void left(Sequence& s) = 0;
    // Ends what is over; microseconds until something else will be.
    virtual std::uint64_t expire() = 0;
};

}  // namespace sluice::sim
