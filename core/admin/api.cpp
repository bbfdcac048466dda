#include "core/admin/api.hpp"

#include <algorithm>

#include "core/admin/origins.hpp"
#include "core/admin/switches.hpp"
#include "core/base/log.hpp"
#include "core/base/metrics.hpp"

namespace sluice::admin {
namespace {

bool is_reading(const std::string& method) {
    return method == "GET" || method == "HEAD";
}

// Whether a viewer may.
bool may_view(Access access, const std::string& method) {
    return access == Access::Reading || (access == Access::ByMethod && is_reading(method));
}

bool is_change(const Route& route, const std::string& method) {
    return !is_reading(method) &&
           (route.access == Access::Admin || route.access == Access::ByMethod);
}

// What an operator does while maintenance is on.
bool is_maintenance_work(const Route& route) {
    constexpr std::string_view kExempt[] = {"/netlox/v1/maintenance", "/netlox/v1/config/snapshot",
                                            "/netlox/v1/config/restore",
                                            "/netlox/v1/config/persist"};
    return std::find(std::begin(kExempt), std::end(kExempt), route.pattern) != std::end(kExempt);
}

Response frozen() {
    Response out = refusal_response({503, "maintenance", "",
                                     "the gateway is in maintenance and takes no changes",
                                     "PUT /netlox/v1/maintenance with enabled false first"});
    out.headers.emplace_back("Retry-After", "60");
    return out;
}

// finished() names the origin.
Response preflight() {
    Response out;
    out.status = 204;
    out.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
    out.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type");
    out.headers.emplace_back("Access-Control-Max-Age", "600");
    return out;
}

}  // namespace

Response Api::finished(const Request& request, Response response) const {
    metrics::registry()
        .counter("sluice_api_requests_total", "Management requests answered.",
                 {{"status", std::to_string(response.status)}})
        .add();
    if (!request.origin.empty()) {
        response.headers.emplace_back("Vary", "Origin");
        if (is_origin_allowed(request)) {
            response.headers.emplace_back("Access-Control-Allow-Origin", request.origin);
        }
    }
    return response;
}

bool Api::is_origin_allowed(const Request& request) const {
    const std::vector<std::string> configured = context_.node->knobs.cors_origins();
    return contains_origin(configured, request.origin) ||
           contains_origin(stored_origins(context_.book), request.origin);
}

std::optional<Response> Api::admit(Request& request, bool& wants_body, std::uint64_t now_us) {
    auto early = judge(request, wants_body, now_us);
    if (early) {
        return finished(request, std::move(*early));
    }
    return std::nullopt;
}

std::optional<Response> Api::judge(Request& request, bool& wants_body, std::uint64_t now_us) {
    wants_body = false;
    // Without tokens whoever reaches the port may do everything. A page whose name is made to
    // resolve to loopback reaches it, too, from the operator's own browser; its name gives it away.
    if (auth_.is_open() && !context_.node->knobs.is_our_name(request.host)) {
        return refusal_response({421, "misdirected", "Host",
                                 "this host name is not one of the management interface",
                                 "an IP address, localhost, or a name of [api] names"});
    }
    if (!request.origin.empty()) {
        const bool is_allowed = is_origin_allowed(request);
        if (request.method == "OPTIONS" && !request.asked_method.empty() && is_allowed) {
            return preflight();
        }
        // A page in an operator's browser can send requests to a loopback address; it cannot leave
        // out its origin.
        if (!is_reading(request.method) && !is_allowed) {
            return refusal_response(
                {403, "cross_origin", "", "requests from web pages of other origins are off", ""});
        }
    }
    Router::Found found = router_.find(request);
    const Access access = found.access;
    if (access != Access::Public) {
        // Before the answer to an unknown path: who has no token learns nothing about paths.
        if (auto denied = auth_.admit(request, may_view(access, request.method), now_us)) {
            return denied;
        }
    } else if (auth_.is_open() || !request.authorization.empty()) {
        // Some public routes tell more to those who are known; guesses are counted here, too.
        (void)auth_.admit(request, true, now_us);
    }
    if (found.route == nullptr) {
        return std::move(found.answer);
    }
    if (is_change(*found.route, request.method) && !is_maintenance_work(*found.route) &&
        maintenance(context_.book).is_on) {
        return frozen();
    }
    wants_body = !found.route->body.empty();
    request.max_body = found.route->max_body;
    return std::nullopt;
}

Response Api::answer(Request& request) {
    const Router::Found found = router_.find(request);
    if (found.route == nullptr) {
        return finished(request, found.answer);
    }
    if (is_change(*found.route, request.method) && context_.book.is_restoring()) {
        return finished(
            request,
            refusal_response({503, "restore_running", "",
                              "a restore or an import is running; try again when it is done", ""}));
    }
    try {
        return finished(request, found.route->handler(context_, request));
    } catch (const std::exception& e) {
        log::error("management request failed", {{"path", request.path}, {"why", e.what()}});
    } catch (...) {
        log::error("management request failed", {{"path", request.path}});
    }
    return finished(request,
                    refusal_response({500, "internal", "", "internal error; see the log", ""}));
}

}  // namespace sluice::admin
