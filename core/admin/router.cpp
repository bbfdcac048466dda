#include "core/admin/router.hpp"

#include <algorithm>

namespace sluice::admin {
namespace {

std::string_view take_until(std::string_view& rest, char stop) {
    const std::size_t at = rest.find(stop);
    const std::string_view head = rest.substr(0, at);
    rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
    return head;
}

bool is_word_of(std::string_view list, std::string_view word) {
    while (!list.empty()) {
        if (take_until(list, ' ') == word) {
            return true;
        }
    }
    return false;
}

void add_method(std::string& allow, std::string_view method) {
    if (allow.find(method) == std::string::npos) {
        allow += (allow.empty() ? "" : ", ") + std::string(method);
        allow += method == "GET" ? ", HEAD" : "";
    }
}

Response not_allowed(const std::string& allow) {
    Response out = refusal_response(
        {405, "method_not_allowed", "", "this path does not take that method", allow});
    out.headers.emplace_back("Allow", allow);
    return out;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view path,
             std::map<std::string, std::string, std::less<>>& params) {
    std::map<std::string, std::string, std::less<>> found;
    if (pattern.empty() || path.empty() || pattern.front() != '/' || path.front() != '/') {
        return false;
    }
    pattern.remove_prefix(1);
    path.remove_prefix(1);
    const auto depth = [](std::string_view p) {
        return std::count(p.begin(), p.end(), '/');
    };
    if (depth(pattern) != depth(path)) {
        return false;
    }
    while (!pattern.empty()) {
        const std::string_view want = take_until(pattern, '/');
        const std::string_view have = take_until(path, '/');
        if (want.front() != '{') {
            if (want != have) {
                return false;
            }
            continue;
        }
        auto value = unescape(have, false);
        if (!value || value->empty()) {
            return false;
        }
        found.emplace(want.substr(1, want.size() - 2), std::move(*value));
    }
    params.merge(found);
    return true;
}

Router::Router() {
    for (const auto routes : {rule_routes(), status_routes()}) {
        routes_.insert(routes_.end(), routes.begin(), routes.end());
    }
}

Router::Found Router::find(Request& request) const {
    Found out;
    const std::string_view method =
        request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
    std::string allow;
    for (const Route& route : routes_) {
        std::map<std::string, std::string, std::less<>> params;
        if (!matches(route.pattern, request.path, params)) {
            continue;
        }
        if (route.method != method) {
            add_method(allow, route.method);
            continue;
        }
        std::map<std::string, std::string, std::less<>> query;
        if (auto refusal = parse_query(request.query, query)) {
            out.answer = refusal_response(*refusal);
            return out;
        }
        for (const auto& [name, value] : query) {
            if (!is_word_of(route.query, name)) {
                out.answer = refusal_response({400, "unknown_parameter", name,
                                               "this path does not know the parameter " + name,
                                               std::string(route.query)});
                return out;
            }
        }
        query.merge(params);
        request.params = std::move(query);
        out.route = &route;
        return out;
    }
    for (const Absent& absent : absent_routes()) {
        std::map<std::string, std::string, std::less<>> params;
        if (!matches(absent.pattern, request.path, params)) {
            continue;
        }
        if (is_word_of(absent.methods, method)) {
            out.answer =
                refusal_response({501, "not_supported_yet", "", std::string(absent.reason), ""});
            return out;
        }
        std::string_view methods = absent.methods;
        while (!methods.empty()) {
            add_method(allow, take_until(methods, ' '));
        }
    }
    out.answer = allow.empty()
                     ? refusal_response({404, "not_found", "", "there is no such path", ""})
                     : not_allowed(allow);
    return out;
}

}  // namespace sluice::admin
