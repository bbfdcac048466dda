// Routes of the interface that this gateway does not have.
#include "core/admin/router.hpp"

namespace sluice::admin {
namespace {

constexpr std::string_view kYet = "not supported yet";
constexpr std::string_view kKernel = "a feature of a kernel data plane; there is none here";
constexpr std::string_view kFilters = "content filters are not part of this gateway";
constexpr std::string_view kLegacy =
    "counts by name are replaced by the Prometheus text at /netlox/v1/metrics";
constexpr std::string_view kLogs =
    "log lines go to standard error, where the system's journal keeps them; the newest warnings "
    "are in /netlox/v1/diagnostics";
constexpr std::string_view kTrace =
    "requests are not exported as traces; their receipts are at /netlox/v1/status/flows";
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
    {"GET", "/netlox/v1/status/flows/stream", kYet},
    {"GET", "/netlox/v1/kv_event_sources", kYet},
    {"GET", "/netlox/v1/metrics/{name}", kLegacy},
    {"GET", "/netlox/v1/logs", kLogs},
    {"GET", "/netlox/v1/log-archives", kLogs},
    {"GET", "/netlox/v1/log-archives/{filename}", kLogs},
    {"GET", "/netlox/v1/config/snapshot", kYet},
    {"POST", "/netlox/v1/config/restore", kYet},
    {"POST", "/netlox/v1/config/persist", kYet},
    {"GET", "/netlox/v1/config/export", kYet},
    {"POST", "/netlox/v1/config/import", kYet},
    {"POST", "/netlox/v1/config/trace/enable", kTrace},
    {"POST", "/netlox/v1/config/trace/disable", kTrace},
    {"GET", "/netlox/v1/config/trace/status", kTrace},
    {"GET POST", "/netlox/v1/config/trace/otlp", kTrace},
    {"GET POST PUT DELETE", "/netlox/v1/config/pii/{name}", kFilters},
    {"GET POST PUT DELETE", "/netlox/v1/config/llamafirewall/{name}", kFilters},
    {"GET POST PUT DELETE", "/netlox/v1/config/opa/watcher", kFilters},
    {"GET POST", "/netlox/v1/config/ai/apikey", kYet},
    {"GET DELETE PATCH", "/netlox/v1/config/ai/apikey/{key_id}", kYet},
    {"POST", "/netlox/v1/config/ai/tenant/ratelimit", kYet},
    {"GET", "/netlox/v1/config/ai/tenant/ratelimit/{tenant_id}", kYet},
    {"GET POST", "/netlox/v1/config/ai/user/ratelimit", kYet},
    {"GET DELETE", "/netlox/v1/config/ai/user/ratelimit/{tenant_id}/{user_id}", kYet},
    {"GET POST DELETE", "/netlox/v1/config/ai/ratelimit/defaults/{scope}", kYet},
    {"GET POST", "/netlox/v1/config/ai/jwtauthprofile", kYet},
    {"GET DELETE", "/netlox/v1/config/ai/jwtauthprofile/{name}", kYet},
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
