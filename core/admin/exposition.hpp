// The registry in the Prometheus text format.
//
// Threads: any.
// Source:  Prometheus text exposition format 0.0.4, written by prometheus-cpp.
#pragma once
#include <string>
#include <vector>

#include "core/base/metrics.hpp"

namespace sluice::admin {

std::string exposition(const std::vector<metrics::Family>& families);

}  // namespace sluice::admin
