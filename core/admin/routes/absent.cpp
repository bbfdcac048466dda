// Routes of the interface that this gateway does not have.
#include "core/admin/router.hpp"

namespace sluice::admin {
namespace {

constexpr std::string_view kYet = "not supported yet";
constexpr std::string_view kKernel = "a feature of a kernel data plane; there is none here";
constexpr std::string_view kFilters = "content filters are not part of this gateway";
constexpr std::string_view kLegacy = "replaced by the metrics at /netlox/v1/metrics";
constexpr std::string_view kUsers = "access is by tokens of the token file; there are no users";

constexpr Absent kAbsent[] = {
    {"GET",
     "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}/status",
     kYet},
    {"GET",
     "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}/stats",
     kYet},
    {"GET",
     "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}/"
     "kvexactstatus",
     kYet},
    {"POST",
     "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}/"
     "sockmapreset",
     kKernel},
    {"GET", "/netlox/v1/config/endpoint/all", kYet},
    {"POST", "/netlox/v1/config/endpoint", kYet},
    {"POST", "/netlox/v1/config/endpointhoststate", kYet},
    {"DELETE", "/netlox/v1/config/endpoint/epipaddress/{ip}", kYet},
    {"GET", "/netlox/v1/status/process", kYet},
    {"GET", "/netlox/v1/status/device", kYet},
    {"GET", "/netlox/v1/status/filesystem", kYet},
    {"GET", "/netlox/v1/status/capabilities", kYet},
    {"GET", "/netlox/v1/status/flows/stream", kYet},
    {"GET", "/netlox/v1/kv_event_sources", kYet},
    {"GET", "/netlox/v1/diagnostics", kYet},
    {"GET PUT", "/netlox/v1/maintenance", kYet},
    {"GET POST", "/netlox/v1/config/params", kYet},
    {"GET", "/netlox/v1/metrics/{name}", kLegacy},
    {"GET", "/netlox/v1/logs", kYet},
    {"GET", "/netlox/v1/log-archives", kYet},
    {"GET", "/netlox/v1/log-archives/{filename}", kYet},
    {"GET", "/netlox/v1/config/snapshot", kYet},
    {"POST", "/netlox/v1/config/restore", kYet},
    {"POST", "/netlox/v1/config/persist", kYet},
    {"GET", "/netlox/v1/config/export", kYet},
    {"POST", "/netlox/v1/config/import", kYet},
    {"GET POST", "/netlox/v1/config/cors", kYet},
    {"DELETE", "/netlox/v1/config/cors/{cors_url}", kYet},
    {"POST", "/netlox/v1/config/trace/enable", kYet},
    {"POST", "/netlox/v1/config/trace/disable", kYet},
    {"GET", "/netlox/v1/config/trace/status", kYet},
    {"GET POST", "/netlox/v1/config/trace/otlp", kYet},
    {"GET POST PUT DELETE", "/netlox/v1/config/pii/{name}", kFilters},
    {"GET POST PUT DELETE", "/netlox/v1/config/llamafirewall/{name}", kFilters},
    {"GET POST PUT DELETE", "/netlox/v1/config/opa/watcher", kFilters},
    {"POST", "/netlox/v1/config/gpu/enable", kYet},
    {"POST", "/netlox/v1/config/gpu/disable", kYet},
    {"GET", "/netlox/v1/config/gpu/status", kYet},
    {"POST", "/netlox/v1/config/gpu/conversations/cleanup", kYet},
    {"GET POST", "/netlox/v1/config/worker/metrics", kYet},
    {"GET POST", "/netlox/v1/config/ai/apikey", kYet},
    {"GET DELETE PATCH", "/netlox/v1/config/ai/apikey/{key_id}", kYet},
    {"POST", "/netlox/v1/config/ai/tenant/ratelimit", kYet},
    {"GET", "/netlox/v1/config/ai/tenant/ratelimit/{tenant_id}", kYet},
    {"GET POST", "/netlox/v1/config/ai/user/ratelimit", kYet},
    {"GET DELETE", "/netlox/v1/config/ai/user/ratelimit/{tenant_id}/{user_id}", kYet},
    {"GET POST DELETE", "/netlox/v1/config/ai/ratelimit/defaults/{scope}", kYet},
    {"GET POST", "/netlox/v1/config/ai/jwtauthprofile", kYet},
    {"GET DELETE", "/netlox/v1/config/ai/jwtauthprofile/{name}", kYet},
    {"GET", "/netlox/v1/config/ai/model-profiles", kYet},
    {"GET", "/netlox/v1/config/ai/model-profiles/{profile_id}", kYet},
    {"GET POST", "/netlox/v1/config/l7policy", kYet},
    {"GET DELETE", "/netlox/v1/config/l7policy/id/{id}", kYet},
    {"POST", "/netlox/v1/config/cert", kYet},
    {"GET PUT DELETE", "/netlox/v1/config/cert/{certId}", kYet},
    {"GET POST DELETE", "/netlox/v1/sni/certificates", kYet},
    {"POST", "/netlox/v1/auth/login", kUsers},
    {"POST", "/netlox/v1/auth/logout", kUsers},
    {"POST", "/netlox/v1/auth/token/upgrade", kUsers},
    {"GET POST", "/netlox/v1/auth/users", kUsers},
    {"PUT DELETE", "/netlox/v1/auth/users/{id}", kUsers},
};

}  // namespace

std::span<const Absent> absent_routes() {
    return kAbsent;
}

}  // namespace sluice::admin
