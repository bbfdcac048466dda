// The HTTP question of a probe, and what its answer must be.
//
// Threads: the loop's.
// Errors:  as try_probe(); Unavailable "status N" for a status that is not expected.
// Limits:  heads as http::HeadLimits, bodies kMaxAnswerBytes.
// Source:  RFC 9112; CONNECT in authority form.
#pragma once
#include "core/fleet/probe_wire.hpp"

namespace sluice::fleet {

std::string http_question(const rules::ProbeSpec& spec);
net::Task<Status> ask_http(ProbeWire& wire, const rules::ProbeSpec& spec, net::Wait wait);

}  // namespace sluice::fleet
