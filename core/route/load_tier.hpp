// The last step of a P/D rule: the endpoint with the fewest requests, in flight from here or
// waiting there as the engine says; among equals in turn.
//
// A sample older than kStaleUs is nobody's word any more: the mean of the others' stands in.
//
// Threads: request.
// Source:  routing contract, section 6 (tier 2, decode).
#pragma once
#include <cstdint>

#include "core/route/tier.hpp"

namespace sluice::route {

class LoadTier {
public:
    static constexpr std::uint64_t kStaleUs = 30'000'000;
    Verdict consider(const Question& q, const Rows& rows) const;
};

}  // namespace sluice::route
