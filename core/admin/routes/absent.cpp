// Routes of the interface that this gateway does not have.
#include "core/admin/router.hpp"

namespace sluice::admin {
namespace {

constexpr std::string_view kKernel = "a feature of a kernel data plane; there is none here";
constexpr std::string_view kFilters = "content filters are not part of this gateway";
constexpr std::string_view kLegacy =
    "counts by name are replaced by the Prometheus text at /netlox/v1/metrics";
constexpr std::string_view kLogs =
    "log lines go to standard error, where the system's journal keeps them; the newest warnings "
    "are in /netlox/v1/diagnostics";
constexpr std::string_view kTrace =
    "requests are not exported as traces; their receipts are at /netlox/v1/status/flows";
constexpr std::string_view kKeys =
    "keys, quotas and JWT profiles of clients are not built yet: no request is asked for a key";
constexpr std::string_view kPolicies =
    "policies beside the rules are not built yet: host, path and model are fields of a rule";
constexpr std::string_view kCertificates = "TLS is not built yet: listeners are plain";
constexpr std::string_view kUsers = "access is by tokens of the token file; there are no users";

constexpr Absent kAbsent[] = {
    {"POST",
     "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}/"
     "sockmapreset",
     kKernel},
    {"GET", "/netlox/v1/metrics/{name}", kLegacy},
    {"GET", "/netlox/v1/logs", kLogs},
    {"GET", "/netlox/v1/log-archives", kLogs},
    {"GET", "/netlox/v1/log-archives/{filename}", kLogs},
    {"POST", "/netlox/v1/config/trace/enable", kTrace},
    {"POST", "/netlox/v1/config/trace/disable", kTrace},
    {"GET", "/netlox/v1/config/trace/status", kTrace},
    {"GET", "/netlox/v1/config/trace/catalogs", kTrace},
    {"GET", "/netlox/v1/config/trace/parsers", kTrace},
    {"GET POST", "/netlox/v1/config/trace/otlp", kTrace},
    {"GET POST PUT DELETE", "/netlox/v1/config/pii/{name}", kFilters},
    {"GET POST PUT DELETE", "/netlox/v1/config/llamafirewall/{name}", kFilters},
    {"GET POST PUT DELETE", "/netlox/v1/config/opa/watcher", kFilters},
    {"GET POST", "/netlox/v1/config/ai/apikey", kKeys},
    {"GET DELETE PATCH", "/netlox/v1/config/ai/apikey/{key_id}", kKeys},
    {"POST", "/netlox/v1/config/ai/tenant/ratelimit", kKeys},
    {"GET", "/netlox/v1/config/ai/tenant/ratelimit/{tenant_id}", kKeys},
    {"GET POST", "/netlox/v1/config/ai/user/ratelimit", kKeys},
    {"GET DELETE", "/netlox/v1/config/ai/user/ratelimit/{user_id}", kKeys},
    {"GET DELETE", "/netlox/v1/config/ai/user/ratelimit/{tenant_id}/{user_id}", kKeys},
    {"GET POST DELETE", "/netlox/v1/config/ai/ratelimit/defaults/{scope}", kKeys},
    {"GET POST", "/netlox/v1/config/ai/jwtauthprofile", kKeys},
    {"GET DELETE", "/netlox/v1/config/ai/jwtauthprofile/{name}", kKeys},
    {"GET POST", "/netlox/v1/config/l7policy", kPolicies},
    {"GET DELETE", "/netlox/v1/config/l7policy/id/{id}", kPolicies},
    {"POST", "/netlox/v1/config/cert", kCertificates},
    {"GET PUT DELETE", "/netlox/v1/config/cert/{certId}", kCertificates},
    {"GET POST DELETE", "/netlox/v1/sni/certificates", kCertificates},
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
