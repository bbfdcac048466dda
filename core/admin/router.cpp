#include "core/admin/router.hpp"

#include <algorithm>
#include <charconv>

#include "core/rules/field.hpp"

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

// Null: the route does not know it.
const Param* find_param(const Route& route, std::string_view name) {
    for (const Param& param : route.query) {
        if (param.name == name) {
            return &param;
        }
    }
    return nullptr;
}

std::string allowed_of(const Param& param) {
    switch (param.kind) {
        case Param::Kind::Flag:
            return "true or false";
        case Param::Kind::Number:
            return std::to_string(param.min) + ".." + std::to_string(param.max);
        case Param::Kind::Text:
            break;
    }
    return param.one_of.empty() ? "at most " + std::to_string(Router::kMaxText) + " bytes"
                                : rules::spoken(param.one_of);
}

bool is_allowed(const Param& param, const std::string& value) {
    switch (param.kind) {
        case Param::Kind::Flag:
            return value == "true" || value == "false";
        case Param::Kind::Number: {
            std::uint64_t n = 0;
            const auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), n);
            return ec == std::errc() && end == value.data() + value.size() && n >= param.min &&
                   n <= param.max;
        }
        case Param::Kind::Text:
            break;
    }
    if (param.one_of.empty()) {
        return value.size() <= Router::kMaxText;
    }
    std::string_view rest = param.one_of;
    while (true) {
        const std::size_t bar = rest.find('|');
        if (rest.substr(0, bar) == value) {
            return true;
        }
        if (bar == std::string_view::npos) {
            return false;
        }
        rest.remove_prefix(bar + 1);
    }
}

using Query = std::map<std::string, std::string, std::less<>>;

std::optional<rules::Refusal> check_query(const Route& route, const Query& query) {
    for (const auto& [name, value] : query) {
        const Param* param = find_param(route, name);
        if (param == nullptr) {
            std::string known;
            for (const Param& one : route.query) {
                known += (known.empty() ? "" : ", ") + std::string(one.name);
            }
            return rules::Refusal{400, "unknown_parameter", name,
                                  "this path does not know the parameter " + name, known};
        }
        if (!is_allowed(*param, value)) {
            return rules::Refusal{400, "bad_parameter", name,
                                  "the parameter " + name + " is " + rules::shown({}, value),
                                  allowed_of(*param)};
        }
    }
    for (const Param& param : route.query) {
        if (param.is_required && query.find(param.name) == query.end()) {
            return rules::Refusal{400, "bad_parameter", std::string(param.name),
                                  "the parameter " + std::string(param.name) + " is required",
                                  allowed_of(param)};
        }
    }
    return std::nullopt;
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
    for (const Topic& topic : topics()) {
        routes_.insert(routes_.end(), topic.routes.begin(), topic.routes.end());
    }
}

std::vector<Topic> topics() {
    return {rule_topic(),    rule_live_topic(), endpoint_topic(), host_state_topic(), node_topic(),
            metrics_topic(), switch_topic(),    cors_topic(),     worker_topic(),     flow_topic(),
            kv_topic(),      meta_topic(),      store_topic()};
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
        out.access = route.access;
        Query query;
        if (auto refusal = parse_query(request.query, query)) {
            out.answer = refusal_response(*refusal);
            return out;
        }
        if (auto refusal = check_query(route, query)) {
            out.answer = refusal_response(*refusal);
            return out;
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
