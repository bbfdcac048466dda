// The table of routes: which handler answers a method and path, and what a wrong one hears.
//
// A topic is one file of routes/ with its routes and the JSON schemas of what they take and give.
// The rows are the one source of the interface: requests are dispatched and their parameters
// checked by them, and the OpenAPI document is made from them.
//
// Threads: any (immutable).
// Errors:  404 unknown path, 405 with Allow for another method, 501 with the reason for routes of
//          the interface that this gateway does not have, 400 for parameters a route does not know
//          or whose value is outside its range.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/admin/http_value.hpp"
#include "core/admin/knobs.hpp"
#include "core/admin/providers.hpp"
#include "core/admin/worker_board.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::admin {

// What the interface itself keeps while it runs.
struct NodeState {
    Knobs knobs;
    WorkerBoard workers;
    std::mutex switch_mu;  // held while a stored switch is read and written anew
};

struct Context {
    rules::RuleBook& book;
    Providers& providers;
    std::string version;
    std::string build_info;
    std::shared_ptr<NodeState> node = std::make_shared<NodeState>();
};

using Handler = Response (*)(Context&, Request&);

enum class Access : std::uint8_t {
    ByMethod,  // GET and HEAD: any token; else an admin's
    Public,    // needs no token
    Reading,   // any token whatever the method: it changes nothing
    Admin,     // an admin's whatever the method
};

// A parameter of the query.
struct Param {
    enum class Kind : std::uint8_t { Text, Number, Flag };
    std::string_view name;
    std::string_view about;  // a sentence
    Kind kind = Kind::Text;
    std::uint64_t min = 0;
    std::uint64_t max = 0;      // 0 = no bound of its own; Text is at most kMaxText bytes
    std::string_view one_of{};  // Text: "a|b"
    bool is_required = false;
};

// What a route takes or gives, JSON Schema 2020-12; "#/components/schemas/Name" refers to others.
struct Schema {
    std::string_view name;
    std::string_view json;
};

struct Route {
    std::string_view method;
    std::string_view pattern;  // "/netlox/v1/config/x/{name}/all"
    Handler handler = nullptr;
    std::string_view summary{};  // a sentence
    Access access = Access::ByMethod;
    std::span<const Param> query{};
    std::string_view body{};             // schema of the body; empty = none is read
    std::string_view reply = "Success";  // schema of the answer; a media type if it is not JSON;
                                         // empty = the answer has no body
    int success = 200;
    // Further answers, "404 409 503:Ready": a status whose body is not the error's names its
    // schema. 400, 401, 403, 429 and 500 go without saying; 411 and 413 where a body is read; 404
    // where the pattern has a name.
    std::string_view may{};
    std::size_t max_body = 0;  // bytes; 0 = the interface's own limit
};

struct Topic {
    std::string_view name;
    std::span<const Route> routes;
    std::span<const Schema> schemas{};
};

// What the interface names and we lack.
struct Absent {
    std::string_view methods;  // "GET POST"
    std::string_view pattern;
    std::string_view reason;
};

// One a file of routes/.
Topic rule_topic();
Topic node_topic();
Topic metrics_topic();
Topic switch_topic();
Topic cors_topic();
Topic worker_topic();
Topic rule_live_topic();
Topic endpoint_topic();
Topic host_state_topic();
Topic flow_topic();
Topic kv_topic();
Topic meta_topic();
Topic store_topic();
std::vector<Topic> topics();
std::span<const Absent> absent_routes();

class Router {
public:
    static constexpr std::size_t kMaxText = 4096;  // bytes of a parameter

    Router();

    struct Found {
        const Route* route = nullptr;  // null: `answer` says it
        Response answer;
        // Of the route, also where only the query is refused.
        Access access = Access::ByMethod;
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
