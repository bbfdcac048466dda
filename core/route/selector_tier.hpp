// The last step: the rule's selector plugins choose.
//
// Threads: request.
#pragma once
#include "core/route/tier.hpp"

namespace sluice::route {

class SelectorTier {
public:
    Verdict consider(const Question& q, Rows& rows) const;
};

}  // namespace sluice::route
