// The step that sends a prompt to the prefill endpoint that saw its beginning last, where no engine
// tells what it holds.
//
// Threads: request.
// Source:  routing contract, section 6 (tier 1: threshold, imbalance guard).
#pragma once
#include "core/route/tier.hpp"

namespace sluice::route {

class PrefixTier {
public:
    Verdict consider(const Question& q, const Rows& rows) const;
};

}  // namespace sluice::route
