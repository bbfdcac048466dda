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

class FlowRing {
public:
    static constexpr std::size_t kSlots = 2048;

    FlowRing() : slots_(kSlots) {}

    // Takes the receipt and leaves an older one in its place, emptied, for its memory.
    void push(route::Receipt& receipt);
    // A JSON array, newest first.
    std::string to_json(const FlowQuery& query) const;
    std::uint64_t pushed() const;

private:
    mutable std::mutex mu_;
    std::vector<route::Receipt> slots_;  // guarded by mu_
    std::uint64_t next_ = 0;             // guarded by mu_
};

}  // namespace sluice::flow
