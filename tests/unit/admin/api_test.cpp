#include "core/admin/api.hpp"

#include <doctest/doctest.h>

#include "core/admin/exposition.hpp"
#include "core/base/log.hpp"
#include "core/base/metrics.hpp"
#include "tests/unit/admin/fakes.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("admin/api");

using namespace sluice;
using namespace sluice::admin;
using rules::Json;
using test::body;

namespace {

struct Fixture {
    Fixture() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Fixture() { log::set_sink({}); }

    test::MemoryStore store;
    test::RecordingHooks hooks;
    test::FakeProviders providers;
    rules::RuleBook book{store, hooks};
    Api api{Context{book, providers, "1.2.3", "test build"}, Tokens()};

    Response ask(const std::string& method, const std::string& target, const std::string& text = "",
                 const std::string& origin = "") {
        Request request;
        request.method = method;
        const auto mark = target.find('?');
        request.path = target.substr(0, mark);
        request.query = mark == std::string::npos ? "" : target.substr(mark + 1);
        request.address = "127.0.0.1";
        request.origin = origin;
        request.body = text;
        bool wants_body = false;
        if (auto early = api.admit(request, wants_body, 1)) {
            return *early;
        }
        return api.answer(request);
    }
    Json json(const std::string& method, const std::string& target, const std::string& text = "") {
        const Response response = ask(method, target, text);
        CAPTURE(response.body);
        REQUIRE(response.status == 200);
        auto value = Json::parse(response.body);
        REQUIRE(value.ok());
        return std::move(*value);
    }
    void post(const std::string& text) {
        const Response response = ask("POST", "/netlox/v1/config/loadbalancer", text);
        CAPTURE(response.body);
        REQUIRE(response.status == 200);
    }
};

const std::string kLb = "/netlox/v1/config/loadbalancer";
const std::string kKey = "/externalipaddress/127.0.0.1/port/8080/protocol/tcp";

std::string at(const Json& json, std::initializer_list<std::string> path) {
    const Json* here = &json;
    for (const std::string& step : path) {
        if (here->object() != nullptr) {
            const auto it = here->object()->find(step);
            if (it == here->object()->end()) {
                return "!" + step;
            }
            here = &it->second;
        } else if (here->array() != nullptr && std::stoul(step) < here->array()->size()) {
            here = &(*here->array())[std::stoul(step)];
        } else {
            return "!" + step;
        }
    }
    return here->dump();
}

std::string code_of(const Response& response) {
    const auto value = Json::parse(response.body);
    return value.ok() ? at(*value, {"code"}) : "!";
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a posted rule is read back with what is in force and how it fares") {
    providers.endpoint_state = EndpointLive{"inactive",
                                            true,
                                            "connection refused",
                                            2,
                                            1,
                                            "open",
                                            KvLive{7, "dead", "unproven", "unreachable", 12}};
    providers.live.effective = {{"kvBlockSize", "32"}};
    providers.live.warnings = {{"listener_unavailable", "in use"}};
    const Json answer =
        json("POST", kLb,
             body({{"name", R"("chat")"}, {"bgp", "true"}, {"kvMinMatchTokens", "8"}},
                  {{"weight", "3"}}));
    CHECK(at(answer, {"result"}) == "\"Success\"");
    CHECK(at(answer, {"number"}) == "1");
    CHECK(at(answer, {"warnings", "0", "code"}) == "\"no_effect\"");

    const Json all = json("GET", kLb + "/all");
    const std::string id = at(answer, {"id"});
    CHECK(at(all, {"lbAttr", "0", "id"}) == id);
    CHECK(at(all, {"lbAttr", "0", "serviceArguments", "id"}) == id);
    CHECK(at(all, {"lbAttr", "0", "number"}) == "1");
    CHECK(at(all, {"lbAttr", "0", "generation"}) == "1");
    CHECK(at(all, {"lbAttr", "0", "serviceArguments", "name"}) == "\"chat\"");
    CHECK(at(all, {"lbAttr", "0", "serviceArguments", "adminStateUp"}) == "true");
    CHECK(at(all, {"lbAttr", "0", "serviceArguments", "kvMinMatchTokens"}) == "8");
    CHECK(at(all, {"lbAttr", "0", "serviceArguments", "kvMaxBlocks"}) == "!kvMaxBlocks");
    CHECK(at(all, {"lbAttr", "0", "effective", "kvMaxBlocks"}) == "1000000");
    CHECK(at(all, {"lbAttr", "0", "effective", "kvBlockSize"}) == "32");
    CHECK(at(all, {"lbAttr", "0", "warnings", "0", "field"}) == "\"bgp\"");
    CHECK(at(all, {"lbAttr", "0", "warnings", "1", "code"}) == "\"listener_unavailable\"");
    const auto endpoint = [&all](const std::string& name) {
        return at(all, {"lbAttr", "0", "endpoints", "0", name});
    };
    CHECK(endpoint("endpointIP") == "\"127.0.0.2\"");
    CHECK(endpoint("weight") == "3");
    CHECK(endpoint("id") == "1");
    CHECK(endpoint("ep_idx") == "0");
    CHECK(endpoint("state") == "\"inactive\"");
    CHECK(endpoint("inActiveEP") == "true");
    CHECK(endpoint("reason") == "\"connection refused\"");
    CHECK(endpoint("inflight") == "2");
    CHECK(endpoint("queued") == "1");
    CHECK(endpoint("breaker") == "\"open\"");
    CHECK(
        endpoint("kv") ==
        R"({"attestation":"unproven","blocks":7,"last_event_age_ms":12,"reason":"unreachable","signal":"dead"})");
    CHECK(at(json("GET", kLb + "/id/" + id.substr(1, id.size() - 2)), {"id"}) == id);
}

TEST_CASE_FIXTURE(Fixture, "an entry that was read back can be posted again and is the same rule") {
    post(body({{"name", R"("chat")"}, {"probetype", R"("http")"}, {"probeport", "1"}}));
    const Json all = json("GET", kLb + "/all");
    const Response again = ask("POST", kLb, at(all, {"lbAttr", "0"}));
    CHECK(again.status == 409);
    CHECK(code_of(again) == "\"lbrule_exists\"");
}

TEST_CASE_FIXTURE(Fixture, "an active endpoint shows no inActiveEP; weight 0 is draining") {
    post(body({}, {{"weight", "0"}}));
    const Json all = json("GET", kLb + "/all");
    CHECK(at(all, {"lbAttr", "0", "endpoints", "0", "state"}) == "\"draining\"");
    CHECK(at(all, {"lbAttr", "0", "endpoints", "0", "inActiveEP"}) == "!inActiveEP");
}

TEST_CASE_FIXTURE(Fixture, "a refusal carries code, field, message, allowed and result") {
    const Response response = ask("POST", kLb, body({{"mode", "0"}}));
    CHECK(response.status == 400);
    auto value = Json::parse(response.body);
    REQUIRE(value.ok());
    CHECK(at(*value, {"code"}) == "\"mode_not_supported\"");
    CHECK(at(*value, {"field"}) == "\"mode\"");
    CHECK(at(*value, {"allowed"}) == "\"4\"");
    CHECK(at(*value, {"message"}) == at(*value, {"result"}));
    CHECK(store.rules.empty());
}

TEST_CASE_FIXTURE(Fixture, "a body without serviceArguments is 400") {
    CHECK(ask("POST", kLb, "{}").status == 400);
    CHECK(ask("POST", kLb, "").status == 400);
}

TEST_CASE_FIXTURE(Fixture, "a full disk is 507 and the rule is not there") {
    store.fail_with = Error{Code::Limit, "database or disk is full"};
    const Response response = ask("POST", kLb, body());
    CHECK(response.status == 507);
    CHECK(code_of(response) == "\"storage_full\"");
    CHECK(at(json("GET", kLb + "/all"), {"lbAttr"}) == "[]");
}

TEST_CASE_FIXTURE(Fixture, "the list is filtered by project") {
    post(body({{"projectId", R"("p")"}}));
    post(body({{"port", "81"}}));
    CHECK(at(json("GET", kLb + "/all?projectId=p"), {"lbAttr", "1"}) == "!1");
    CHECK(at(json("GET", kLb + "/all?projectId=p"), {"lbAttr", "0", "serviceArguments", "port"}) ==
          "8080");
    CHECK(at(json("GET", kLb + "/all?projectId=q"), {"lbAttr"}) == "[]");
    CHECK(at(json("GET", kLb + "/all"), {"lbAttr", "1", "serviceArguments", "port"}) == "81");
}

TEST_CASE_FIXTURE(Fixture, "rules of an address are listed, and narrowed by what the query names") {
    post(body());
    post(body({{"model_name", R"("org/m")"}}));
    post(body(
        {{"host", R"("h")"}, {"path_prefix", R"("/v1")"}, {"path_match_mode", R"("prefix")"}}));
    CHECK(json("GET", kLb + kKey).object()->at("lbAttr").array()->size() == 3);
    CHECK(json("GET", kLb + kKey + "?model_name=org%2Fm").object()->at("lbAttr").array()->size() ==
          1);
    CHECK(json("GET", kLb + kKey + "?model_name=").object()->at("lbAttr").array()->size() == 2);
    CHECK(json("GET", kLb + kKey + "?path_prefix=/v1&path_match_mode=prefix")
              .object()
              ->at("lbAttr")
              .array()
              ->size() == 1);
    CHECK(ask("GET", kLb + "/externalipaddress/127.0.0.1/port/9/protocol/tcp").status == 404);
    CHECK(ask("GET", kLb + "/externalipaddress/nowhere/port/9/protocol/tcp").status == 400);
    CHECK(ask("GET", kLb + "/externalipaddress/127.0.0.1/port/x/protocol/tcp").status == 400);
}

TEST_CASE_FIXTURE(Fixture, "a rule is deleted by its whole key only") {
    post(body({{"host", R"("H.example:80")"},
               {"model_name", R"("org/m")"},
               {"path_prefix", R"("/v1")"},
               {"path_match_mode", R"("prefix")"},
               {"block", "5"}}));
    const std::string by_host = kLb + "/hosturl/h.example" + kKey;
    const std::string rest = "?path_prefix=/v1&path_match_mode=prefix&model_name=org/m&block=5";
    for (const std::string& miss :
         {kLb + kKey, kLb + kKey + rest, by_host, by_host + "?model_name=org/m&block=5",
          by_host + "?path_prefix=/v1&path_match_mode=exact&model_name=org/m&block=5",
          by_host + "?path_prefix=/v1&path_match_mode=prefix&model_name=org/m",
          by_host + "?path_prefix=/v1&path_match_mode=prefix&block=5"}) {
        CAPTURE(miss);
        CHECK(ask("DELETE", miss).status == 404);
        CHECK(code_of(ask("DELETE", miss)) == "\"no_rule\"");
    }
    CHECK(ask("DELETE", kLb + "/hosturl/H.EXAMPLE" + kKey + rest + "&bgp=false").status == 200);
    CHECK(book.table()->rules().empty());
}

TEST_CASE_FIXTURE(Fixture, "hosturl any is the rule for every host") {
    post(body());
    CHECK(ask("DELETE", kLb + "/hosturl/any" + kKey + "?path_match_mode=disabled").status == 200);
    post(body());
    CHECK(ask("DELETE", kLb + kKey).status == 200);
}

TEST_CASE_FIXTURE(Fixture, "an IPv6 address in a path is any spelling of it") {
    post(body({{"externalIP", R"("::1")"}}));
    CHECK(ask("DELETE", kLb + "/externalipaddress/0:0%3A:1/port/8080/protocol/TCP").status == 200);
}

TEST_CASE_FIXTURE(Fixture, "deleting by name is 404 when there is none, deleting all is not") {
    CHECK(ask("DELETE", kLb + "/name/x").status == 404);
    CHECK(ask("DELETE", kLb + "/all").status == 200);
    post(body({{"name", R"("a b/c")"}}));
    post(body({{"port", "81"}, {"name", R"("a b/c")"}}));
    CHECK(ask("DELETE", kLb + "/name/a%20b%2Fc").status == 200);
    CHECK(book.table()->rules().empty());
    post(body());
    CHECK(ask("DELETE", kLb + "/all").status == 200);
    CHECK(book.table()->rules().empty());
    CHECK(ask("GET", kLb + "/id/x").status == 404);
}

TEST_CASE_FIXTURE(Fixture, "a parameter that is misspelled, or given twice, deletes nothing") {
    post(body({{"model_name", R"("m")"}}));
    for (const std::string query : {"?model=m", "?model_name=m&model_name=m", "?model_name=%zz",
                                    "?model_name=m&block=x", "?model_name=m%00"}) {
        CAPTURE(query);
        CHECK(ask("DELETE", kLb + kKey + query).status == 400);
    }
    CHECK(book.table()->rules().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "unknown paths, wrong methods and absent routes are told apart") {
    struct Row {
        std::string method, path;
        int status;
        std::string allow;
    };
    for (const Row& row : {Row{"GET", "/", 404, ""},
                           Row{"GET", "/netlox/v1", 404, ""},
                           Row{"GET", "/netlox/v1/config/loadbalancer/all/", 404, ""},
                           Row{"GET", "/netlox/v1//version", 404, ""},
                           Row{"GET", "/netlox/v2/version", 404, ""},
                           Row{"GET", "/netlox/v1/config/loadbalancer/id/", 404, ""},
                           Row{"POST", "/netlox/v1/version", 405, "GET, HEAD"},
                           Row{"PUT", kLb, 405, "POST"},
                           Row{"POST", kLb + "/all", 405, "GET, HEAD, DELETE"},
                           Row{"OPTIONS", kLb, 405, "POST"},
                           Row{"BREW", "/metrics", 405, "GET, HEAD"},
                           Row{"POST", kLb + kKey + "/sockmapreset", 501, ""},
                           Row{"POST", "/netlox/v1/config/ai/apikey", 501, ""},
                           Row{"GET", "/netlox/v1/metrics/flowcount", 501, ""},
                           Row{"GET", "/netlox/v1/logs", 501, ""},
                           Row{"GET", "/netlox/v1/config/trace/catalogs", 501, ""},
                           Row{"GET", "/netlox/v1/config/trace/parsers", 501, ""},
                           Row{"GET", "/netlox/v1/config/ai/user/ratelimit/u", 501, ""},
                           Row{"TRACE", "/netlox/v1/version", 405, "GET, HEAD"},
                           Row{"POST", "/netlox/v1/maintenance", 405, "GET, HEAD, PUT"}}) {
        CAPTURE(row.method);
        CAPTURE(row.path);
        const Response response = ask(row.method, row.path);
        CHECK(response.status == row.status);
        CHECK(Json::parse(response.body).ok());
        std::string allow;
        for (const auto& [name, value] : response.headers) {
            allow = name == "Allow" ? value : allow;
        }
        CHECK(allow == row.allow);
    }
}

TEST_CASE_FIXTURE(Fixture, "a web page of another origin can change nothing") {
    CHECK(ask("POST", kLb, body(), "http://evil.example").status == 403);
    CHECK(ask("DELETE", kLb + "/all", "", "null").status == 403);
    CHECK(store.rules.empty());
    CHECK(ask("GET", kLb + "/all", "", "http://evil.example").status == 200);
}

TEST_CASE_FIXTURE(Fixture, "readiness has one body with 200 and 503") {
    providers.readiness.database_found = true;
    Response response = ask("GET", "/netlox/v1/status/ready");
    CHECK(response.status == 200);
    CHECK(response.body ==
          R"({"auto_persist":true,"boot":{"degraded":false,"generation":0,"legacy_fallback":false,)"
          R"("profile":"strict","quarantine_path":"","snapshot_found":true,"succeeded":true},)"
          R"("ebpf_attachments":[],"external_dependencies":[],"last_persist":null,)"
          R"("last_restore":null,"ready":true,"reasons":[]})");
    providers.readiness.ready = false;
    providers.readiness.reasons = {"rule chat: 127.0.0.1:80 cannot be bound"};
    response = ask("GET", "/netlox/v1/status/ready");
    CHECK(response.status == 503);
    CHECK(response.body.find(R"("reasons":["rule chat: 127.0.0.1:80 cannot be bound"])") !=
          std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a stored rule that is not in force is shown, and can be deleted") {
    hooks.engine_names = {"vllm", "acme"};
    post(body({{"engine", R"("acme")"}, {"name", R"("sleeper")"}}));
    hooks.engine_names = {"vllm"};
    REQUIRE(book.load().ok());
    const Json all = json("GET", kLb + "/all");
    CHECK(at(all, {"lbAttr", "0", "serviceArguments", "name"}) == "\"sleeper\"");
    CHECK(at(all, {"lbAttr", "0", "endpoints", "0", "state"}) == "\"disabled\"");
    CHECK(at(all, {"lbAttr", "0", "warnings", "0", "code"}) == "\"not_in_force\"");
    CHECK(ask("DELETE", kLb + kKey).status == 200);
    CHECK(at(json("GET", kLb + "/all"), {"lbAttr"}) == "[]");
}

TEST_CASE_FIXTURE(Fixture, "version, plugins and flows are shown") {
    CHECK(json("GET", "/netlox/v1/version").dump() ==
          R"({"buildInfo":"test build","implementation":"sluice",)"
          R"("product":"loxilb-inference-gateway","version":"1.2.3"})");
    CHECK(json("GET", "/netlox/v1/status/plugins").dump() == R"({"plugins":[{"id":"p"}]})");
    CHECK(json("GET", "/netlox/v1/status/flows?rule=r&model=a%2Fb&outcome=ok&limit=7").dump() ==
          R"({"flows":[]})");
    CHECK(providers.asked.rule == "r");
    CHECK(providers.asked.model == "a/b");
    CHECK(providers.asked.outcome == "ok");
    CHECK(providers.asked.limit == 7);
    json("GET", "/netlox/v1/status/flows");
    CHECK(providers.asked.limit == 100);
    for (const char* limit : {"-1", "x", "", "10001", "1x"}) {
        CHECK(ask("GET", std::string("/netlox/v1/status/flows?limit=") + limit).status == 400);
    }
}

TEST_CASE_FIXTURE(Fixture, "explain hands its body on and its errors back") {
    CHECK(json("POST", "/netlox/v1/config/ai/route/explain", R"({"rule":"r"})").dump() ==
          R"({"id":"r"})");
    CHECK(providers.explained == R"({"rule":"r"})");
    struct Row {
        Code code;
        int status;
    };
    for (const Row& row :
         {Row{Code::Invalid, 400}, Row{Code::NotFound, 404}, Row{Code::Unavailable, 503},
          Row{Code::Unsupported, 501}, Row{Code::Internal, 500}}) {
        providers.fail_with = Error{row.code, "because"};
        const Response response = ask("POST", "/netlox/v1/config/ai/route/explain", "{}");
        CHECK(response.status == row.status);
        CHECK(response.body.find("because") != std::string::npos);
    }
}

TEST_CASE_FIXTURE(Fixture, "published events are found as an engine's are, by address alone") {
    post(body({{"id", R"("r-1")"}, {"name", R"("chat")"}}));
    const std::string path = "/netlox/v1/kv_event_sources?endpoint=127.0.0.2:8000";
    CHECK(json("GET", path).dump() == "{}");
    CHECK(json("GET", path + "&rule=chat").dump() == "{}");
    providers.republishes = "r-1";
    for (const char* rule : {"", "&rule=1", "&rule=r-1", "&rule=chat"}) {
        CAPTURE(std::string(rule));
        CHECK(json("GET", path + rule).dump() == R"({"0":{"endpoint":"127.0.0.2:8000"}})");
    }
    for (const char* query : {"?endpoint=127.0.0.2:8001", "?endpoint=0", "?endpoint=",
                              "?endpoint=:", "?endpoint=127.0.0.2:8000&rule=nobody"}) {
        CAPTURE(std::string(query));
        CHECK(ask("GET", "/netlox/v1/kv_event_sources" + std::string(query)).status == 404);
    }
    CHECK(ask("GET", "/netlox/v1/kv_event_sources").status == 400);
}

TEST_CASE_FIXTURE(Fixture, "an inventory is found by number, id or name, and by index or address") {
    post(body({{"id", R"("r-1")"}, {"name", R"("chat")"}}));
    const std::string path = "/netlox/v1/config/ai/kv/inventory";
    for (const char* query : {"?service_id=1&ep_idx=0", "?service_id=r-1&ep_idx=0",
                              "?service_id=chat&endpoint=127.0.0.2:8000"}) {
        CAPTURE(std::string(query));
        CHECK(
            json("GET", path + query).dump() ==
            R"({"blocks":[{"block_idx":0,"hash_uint64":1},)"
            R"({"block_idx":1,"hash_uint64":18446744073709551615},{"block_idx":2,"hash_uint64":3}],)"
            R"("endpoint":"127.0.0.2:8000","ep_idx":0,"hash_algo":"sha256","ranks":[],"service_id":1,)"
            R"("total":3,"truncated":false})");
        CHECK(providers.inventory_of == "1 127.0.0.2:8000");
    }
    const Json cut = json("GET", path + "?service_id=1&ep_idx=0&limit=1");
    CHECK(at(cut, {"truncated"}) == "true");
    CHECK(at(cut, {"total"}) == "3");
    CHECK(at(cut, {"blocks", "1"}) == "!1");

    post(body({{"port", "81"}, {"name", R"("chat")"}}));
    struct Row {
        std::string query;
        int status;
    };
    for (const Row& row :
         {Row{"", 400}, Row{"?service_id=1", 400}, Row{"?ep_idx=0", 400},
          Row{"?service_id=1&ep_idx=0&endpoint=127.0.0.2:8000", 400},
          Row{"?service_id=chat&ep_idx=0", 400}, Row{"?service_id=9&ep_idx=0", 404},
          Row{"?service_id=&ep_idx=0", 404}, Row{"?service_id=1&ep_idx=1", 404},
          Row{"?service_id=1&endpoint=127.0.0.2:1", 404},
          Row{"?service_id=1&ep_idx=0&limit=x", 400}}) {
        CAPTURE(row.query);
        CHECK(ask("GET", path + row.query).status == row.status);
    }
    providers.fail_with = Error{Code::Unavailable, "no provider"};
    CHECK(ask("GET", path + "?service_id=1&ep_idx=0").status == 503);
}

TEST_CASE_FIXTURE(Fixture, "metrics are on from the start, can be switched, and that is stored") {
    post(body());
    Response response = ask("GET", "/metrics");
    CHECK(response.status == 200);
    CHECK(response.content_type == "text/plain; version=0.0.4; charset=utf-8");
    const std::string stored = "# TYPE loxilb_persist_total counter\n";
    CHECK(response.body.find(stored) != std::string::npos);
    CHECK(response.body.find("loxilb_persist_total{result=\"ok\"} ") != std::string::npos);
    CHECK(ask("GET", "/netlox/v1/metrics").body.find(stored) != std::string::npos);
    CHECK(json("GET", "/netlox/v1/config/metrics").dump() == R"({"prometheus":true})");
    CHECK(json("POST", "/netlox/v1/config/metrics").dump().find("already enabled") !=
          std::string::npos);
    CHECK(at(json("DELETE", "/netlox/v1/config/metrics"), {"result"}) == "\"Success\"");
    CHECK(json("DELETE", "/netlox/v1/config/metrics").dump().find("already disabled") !=
          std::string::npos);
    CHECK(store.settings.at("prometheus") == "off");
    response = ask("GET", "/netlox/v1/metrics");
    CHECK(response.status == 503);
    CHECK(response.body == "Prometheus option is disabled.");
    CHECK(json("GET", "/netlox/v1/config/metrics").dump() == R"({"prometheus":false})");
    CHECK(at(json("POST", "/netlox/v1/config/metrics"), {"result"}) == "\"Success\"");
    CHECK(ask("GET", "/metrics").status == 200);
}

TEST_CASE_FIXTURE(Fixture, "with tokens, only version, readiness and metrics are open") {
    auto tokens = Tokens::parse("ann admin a");
    REQUIRE(tokens.ok());
    Api closed{Context{book, providers, "1", ""}, std::move(*tokens)};
    struct Row {
        std::string path;
        int status;
    };
    for (const Row& row :
         {Row{"/netlox/v1/version", 200}, Row{"/metrics", 200}, Row{"/netlox/v1/metrics", 200},
          Row{"/metrics?colour=1", 400}, Row{"/netlox/v1/status/plugins?colour=1", 401},
          Row{"/netlox/v1/status/ready", 200}, Row{"/netlox/v1/config/ai/kv/inventory", 401},
          Row{"/netlox/v1/config/ai/apikey", 401}, Row{"/nowhere", 401}, Row{kLb + "/all", 401}}) {
        CAPTURE(row.path);
        Request request;
        request.method = "GET";
        const auto mark = row.path.find('?');
        request.path = row.path.substr(0, mark);
        request.query = mark == std::string::npos ? "" : row.path.substr(mark + 1);
        bool wants_body = false;
        const auto early = closed.admit(request, wants_body, 1);
        CHECK((early ? early->status : 200) == row.status);
    }
}

TEST_CASE("histograms are cumulative and label values escaped") {
    metrics::Registry registry;
    auto& h = registry.histogram("t_seconds", "A time.", {0.1, 1}, {{"model", "a\"\\\nb"}});
    h.observe(0.05);
    h.observe(0.5);
    h.observe(5);
    CHECK(exposition(registry.collect()) ==
          "# HELP t_seconds A time.\n# TYPE t_seconds histogram\n"
          "t_seconds_count{model=\"a\\\"\\\\\\nb\"} 3\n"
          "t_seconds_sum{model=\"a\\\"\\\\\\nb\"} 5.55\n"
          "t_seconds_bucket{model=\"a\\\"\\\\\\nb\",le=\"0.1\"} 1\n"
          "t_seconds_bucket{model=\"a\\\"\\\\\\nb\",le=\"1\"} 2\n"
          "t_seconds_bucket{model=\"a\\\"\\\\\\nb\",le=\"+Inf\"} 3\n");
}

TEST_SUITE_END();
