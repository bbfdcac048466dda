// The step that sends a prompt to the endpoint that already holds most of its blocks.
//
// Matches are contiguous from the prompt's start; the tail an engine never reuses is not asked for.
// Under `hard` an endpoint takes part only while it stays below its load bound: a prefix is worth
// less than a queue.
//
// Threads: request; scratch space of one loop.
// Units:   blocks, requests in flight.
// Source:  routing contract, section 5.3 (guards and their words, bound, spill, cold seed,
//          watchdog).
#pragma once
#include <cstdint>

#include "core/kv/match.hpp"
#include "core/route/tier.hpp"

namespace sluice::route {

class KvExactTier {
public:
    // Fills the reach of every row, excluded ones too: the receipt shows what was passed over.
    // Counts what it decides unless the request is a dry run.
    Verdict consider(const Question& q, Rows& rows, Receipt& receipt);
    // Only fills the reach of the rows, where the prompt can be looked up.
    void look(const Question& q, Rows& rows);

private:
    // What the rows that may be chosen hold together.
    struct Standing {
        std::uint32_t best = 0;          // blocks
        std::uint32_t best_tokens = 0;   // block size there
        std::uint32_t query_blocks = 0;  // that could be reused at most
        std::uint64_t total_load = 0;    // requests in flight
        std::uint64_t num_free = 0;
        std::string_view when_none;  // why best is 0
    };
    void match_blocks(const Question& q, Rows& rows);
    static Standing survey(const Question& q, Rows& rows);
    static void watch(const Question& q, bool is_hit);

    kv::MatchSet matches_;
};

}  // namespace sluice::route
