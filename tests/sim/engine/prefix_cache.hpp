// What an engine core asks of its KV cache; each simulated engine has its own.
//
// Threads: none of its own; every call under the engine's lock.
// Errors:  admit() and grow() refuse when blocks are missing; nothing is then taken.
// Units:   tokens.
#pragma once
#include <cstdint>
#include <optional>

namespace sluice::sim {

class Sequence;

// What a cache keeps of one request while it runs.
struct Holding {
    virtual ~Holding() = default;
};

class PrefixCache {
public:
    virtual ~PrefixCache() = default;

    // What a request gets that starts: blocks for the leading tokens found in the cache and for as
    // many more as fit into `budget`, at least one.
    struct Admission {
        std::uint32_t cached = 0;  // tokens found
        std::uint32_t tokens = 0;  // to be computed in this step
    };
    virtual std::optional<Admission> admit(Sequence& s, std::uint32_t budget) = 0;
    // Blocks for the first `upto` tokens; false when there are not enough.
    virtual bool grow(Sequence& s, std::uint32_t upto) = 0;
    // A step has ended that computed the first `upto` tokens.
    virtual void computed(Sequence&, std::uint32_t /*upto*/) {}
    // The request ended or was preempted: its blocks go back.
    virtual void release(Sequence& s) = 0;
    // Sends out what happened since the last call; it may block, like the engine.
    virtual void publish() = 0;
    // Forgets all content. False, and nothing done, while requests hold blocks.
    virtual bool reset() = 0;
    virtual double usage() const = 0;  // 0 to 1
    // Whether repeated prompts are found again at all.
    virtual bool is_enabled() const = 0;
};

}  // namespace sluice::sim
