// Gauges that are states of rules and endpoints, read when metrics are scraped.
//
// Threads: any.
// Source:  metrics contract, sections 1, 3 and 4 (names and labels).
#pragma once
#include <vector>

#include "core/base/metrics.hpp"
#include "core/flow/directory.hpp"

namespace sluice::flow {

void scrape(const Directory& directory, std::vector<metrics::Family>& out);

}  // namespace sluice::flow
