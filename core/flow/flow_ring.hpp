// The last receipts, for people and tests.
//
// Threads: push() any loop, once a request; the rest any.
// Limits:  kSlots receipts; older ones are overwritten and their memory reused.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/route/receipt.hpp"

namespace sluice::flow {

struct FlowQuery {
    std::string_view rule;     // id, name resolved by the caller, or number; empty = any
    std::string_view model;    // empty = any
    std::string_view outcome;  // empty = any
    std::size_t limit = 100;
};

// How far one reader of the ring has come.
struct FlowCursor {
    std::uint64_t next = 0;     // the first receipt it has not seen
    std::uint64_t every = 1;    // it takes one of so many that match
    std::uint64_t matched = 0;  // so far
};

class FlowRing {
public:
    // Looked at under one lock by read(), so that push() never waits long.
    static constexpr std::size_t kReadStep = 8;
    static constexpr std::size_t kSlots = 2048;

    FlowRing() : slots_(kSlots) {}

    // Takes the receipt and leaves an older one in its place, emptied, for its memory.
    void push(route::Receipt& receipt);
    // A JSON array, newest first.
    std::string to_json(const FlowQuery& query) const;
    std::uint64_t pushed() const;
    // A cursor at the newest receipt: what comes from now on.
    FlowCursor cursor(std::uint64_t every) const { return {pushed(), every, 0}; }

    enum class Read { More, Done, Lost };
    // Appends what matches among the next kReadStep receipts, oldest first. Done: the cursor is at
    // the end. Lost: receipts were overwritten before this reader came to them. Readers cost a
    // request nothing but the lock they share with it.
    Read read(FlowCursor& cursor, const FlowQuery& query, std::vector<route::Receipt>& out) const;

private:
    static bool matches(const route::Receipt& receipt, const FlowQuery& query);

    mutable std::mutex mu_;
    std::vector<route::Receipt> slots_;  // guarded by mu_
    std::uint64_t next_ = 0;             // guarded by mu_
};

}  // namespace sluice::flow
