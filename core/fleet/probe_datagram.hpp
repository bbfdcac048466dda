// Probes of datagrams: UDP and ICMP echo.
//
// Threads: the loop's.
// Errors:  as try_probe().
// Units:   without an expected answer, a UDP probe waits at most kMaxSilence for a refusal.
#pragma once
#include <chrono>

#include "core/fleet/probe_try.hpp"

namespace sluice::fleet {

inline constexpr std::chrono::seconds kMaxSilence{1};

net::Task<Result<ProbeAnswer>> try_udp(net::Loop& loop, const rules::ProbeSpec& spec,
                                       net::Wait wait);
net::Task<Result<ProbeAnswer>> try_ping(net::Loop& loop, const rules::ProbeSpec& spec,
                                        net::Wait wait);

}  // namespace sluice::fleet
