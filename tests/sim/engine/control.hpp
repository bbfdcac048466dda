// /sim/requests and /sim/fault, which every simulated engine offers beside its own routes.
//
// Threads: the connection's.
#pragma once
#include "tests/sim/engine/fault.hpp"
#include "tests/sim/engine/record.hpp"
#include "tests/sim/support/exchange.hpp"

namespace sluice::sim {

http::Response handle_control(FaultBoard& faults, Record& record, const http::Request& request);

}  // namespace sluice::sim
