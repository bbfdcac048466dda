// The table of routes: which handler answers a method and path, and what a wrong one hears.
//
// Threads: any (immutable).
// Errors:  404 unknown path, 405 with Allow for another method, 501 with the reason for routes of
//          the interface that this gateway does not have, 400 for parameters a route does not know.
#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/admin/http_value.hpp"
#include "core/admin/providers.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::admin {

struct Context {
    rules::RuleBook& book;
    Providers& providers;
    std::string version;
    std::string build_info;
};

using Handler = Response (*)(Context&, Request&);

struct Route {
    std::string_view method;
    std::string_view pattern;  // "/netlox/v1/config/x/{name}/all"
    Handler handler;
    std::string_view query = {};  // known parameters, "a b c"
    bool is_public = false;       // needs no token
    bool has_body = false;
};

// What the interface names and we lack.
struct Absent {
    std::string_view methods;  // "GET POST"
    std::string_view pattern;
    std::string_view reason;
};

std::span<const Route> rule_routes();
std::span<const Route> status_routes();
std::span<const Absent> absent_routes();

class Router {
public:
    Router();

    struct Found {
        const Route* route = nullptr;  // null: `answer` says it
        Response answer;
    };
    // Fills request.params from path and query. HEAD finds GET.
    Found find(Request& request) const;

private:
    std::vector<Route> routes_;
};

// Whether `path` is of `pattern`; puts {names} unescaped into `params`.
bool matches(std::string_view pattern, std::string_view path,
             std::map<std::string, std::string, std::less<>>& params);

}  // namespace sluice::admin
