#include "core/admin/api.hpp"

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

Response counted(Response response) {
    metrics::registry()
        .counter("sluice_api_requests_total", "Management requests answered.",
                 {{"status", std::to_string(response.status)}})
        .add();
    return response;
}

}  // namespace

std::optional<Response> Api::admit(Request& request, bool& wants_body, std::uint64_t now_us) {
    wants_body = false;
    // A page in an operator's browser can send requests to a loopback address; it cannot leave out
    // its origin.
    if (!is_reading(request.method) && !request.origin.empty()) {
        return counted(refusal_response(
            {403, "cross_origin", "", "requests from web pages of other origins are off", ""}));
    }
    Router::Found found = router_.find(request);
    const Access access = found.access;
    if (access != Access::Public) {
        // Before the answer to an unknown path: who has no token learns nothing about paths.
        if (auto denied = auth_.admit(request, may_view(access, request.method), now_us)) {
            return counted(std::move(*denied));
        }
    }
    if (found.route == nullptr) {
        return counted(std::move(found.answer));
    }
    wants_body = !found.route->body.empty();
    return std::nullopt;
}

Response Api::answer(Request& request) {
    const Router::Found found = router_.find(request);
    if (found.route == nullptr) {
        return counted(found.answer);
    }
    try {
        return counted(found.route->handler(context_, request));
    } catch (const std::exception& e) {
        log::error("management request failed", {{"path", request.path}, {"why", e.what()}});
    } catch (...) {
        log::error("management request failed", {{"path", request.path}});
    }
    return counted(refusal_response({500, "internal", "", "internal error; see the log", ""}));
}

}  // namespace sluice::admin
