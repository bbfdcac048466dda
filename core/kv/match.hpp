// What a look-up in the index returns, with the scratch space of the walk.
//
// Threads: one at a time; keep one a thread or a request and reuse it: after the first look-ups a
//          walk allocates nothing.
// Units:   blocks of the query, counted from its start.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::kv {

class Walk;

// How far one holder's blocks reach into the query without a hole.
struct Match {
    std::uint64_t endpoint = 0;
    std::uint32_t rank = 0;
    std::uint32_t blocks = 0;      // on any tier, doubtful ones taken as absent
    std::uint32_t gpu_blocks = 0;  // the same, on GPU alone
    // By how much `blocks` would grow if doubtful blocks counted. May decide between equals.
    std::uint32_t doubtful_blocks = 0;
};

class MatchSet {
public:
    // Holders with at least one block, doubtful ones included; in no particular order.
    std::span<const Match> matches() const noexcept { return matches_; }
    bool empty() const noexcept { return matches_.empty(); }
    // Null when that rank holds nothing.
    const Match* find(std::uint64_t endpoint, std::uint32_t rank) const noexcept;
    // The best rank of an endpoint: most blocks, then most on GPU. Null when none holds anything.
    const Match* best_rank(std::uint64_t endpoint) const noexcept;
    // How many keys were looked at before no holder was left.
    std::uint32_t walked_blocks() const noexcept { return walked_; }
    void clear() noexcept;

private:
    friend class Walk;

    // The holders of one 64-wide stripe of ids that still reach as far as the walk.
    struct Active {
        std::uint32_t stripe;
        std::uint32_t base;     // of its first holder in matches_
        std::uint64_t first;    // holders of block 0; a bit's rank in it is its place in matches_
        std::uint64_t doubt;    // holders whose older blocks are doubtful
        std::uint64_t hidden;   // holders being forgotten
        std::uint64_t maybe;    // doubtful blocks counted
        std::uint64_t certain;  // not counted
        std::uint64_t gpu;      // not counted, GPU alone
    };
    std::vector<Match> matches_;
    std::vector<Active> active_;
    std::uint32_t walked_ = 0;
};

}  // namespace sluice::kv
