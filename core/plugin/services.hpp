// The service tables a plugin may ask for, by id. One static table a service for all instances;
// which instance calls is in the sluice_host it passes.
//
// Threads: any (static tables).
#pragma once
#include <sluice/sdk/fleet.h>
#include <sluice/sdk/host.h>
#include <sluice/sdk/kv.h>
#include <sluice/sdk/net.h>

#include <string_view>

namespace sluice::plugin {

bool has_service(std::string_view id) noexcept;
// Null when this gateway does not have it.
const void* find_service(std::string_view id) noexcept;

const sluice_log_api& log_service() noexcept;
const sluice_metrics_api& metrics_service() noexcept;
const sluice_event_api& event_service() noexcept;
const sluice_http_api& http_service() noexcept;
const sluice_zmq_api& zmq_service() noexcept;
const sluice_fleet_api& fleet_service() noexcept;
const sluice_kv_api& kv_service() noexcept;

}  // namespace sluice::plugin
