// Whether a VIP:port is free for us.
//
// Workers listen with SO_REUSEPORT, under which a second program of the same user would share the
// port silently; so before the first of them binds, the port is tried without it.
//
// Threads: control.
#pragma once
#include "core/base/result.hpp"
#include "core/rules/table.hpp"

namespace sluice::flow {

// Unavailable with the system's reason when it is not.
Status check_vip_is_free(const rules::ListenAddress& at);

}  // namespace sluice::flow
