// The step that keeps a conversation with the pair of endpoints it had.
//
// Threads: request.
// Source:  routing contract, section 6 (tier 0).
#pragma once
#include "core/route/tier.hpp"

namespace sluice::route {

class SessionTier {
public:
    // Forgets a session whose endpoint is out, unless the request is a dry run.
    Verdict consider(const Question& q, const Rows& rows) const;
};

}  // namespace sluice::route
