// Routes that show or steer what is live, without a socket.
#include <doctest/doctest.h>

#include "core/admin/api.hpp"
#include "core/base/log.hpp"
#include "core/rules/health_objects.hpp"
#include "core/rules/host_states.hpp"
#include "tests/unit/admin/fakes.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("admin/live_routes");

using namespace sluice;
using namespace sluice::admin;
using rules::Json;

namespace {

struct Fixture {
    Fixture() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Fixture() { log::set_sink({}); }

    Response ask(const std::string& method, const std::string& target,
                 const std::string& text = "") {
        Request request;
        request.method = method;
        const auto mark = target.find('?');
        request.path = "/netlox/v1" + target.substr(0, mark);
        request.query = mark == std::string::npos ? "" : target.substr(mark + 1);
        request.address = "127.0.0.1";
        request.body = text;
        bool wants_body = false;
        if (auto early = api.admit(request, wants_body, 1)) {
            return *early;
        }
        return api.answer(request);
    }
    std::string reply(const std::string& method, const std::string& target,
                      const std::string& text = "") {
        const Response response = ask(method, target, text);
        CAPTURE(response.body);
        REQUIRE(response.status == 200);
        return response.body;
    }
    // Status and code.
    std::string refusal(const std::string& method, const std::string& target,
                        const std::string& text = "") {
        const Response response = ask(method, target, text);
        const auto body = Json::parse(response.body);
        REQUIRE(body);
        const auto code = body->object()->find("code");
        return std::to_string(response.status) + " " +
               (code == body->object()->end() ? "" : *code->second.text());
    }
    void post_rule(const test::Members& service = {}) {
        reply("POST", "/config/loadbalancer", test::body(service));
    }

    test::MemoryStore store;
    test::RecordingHooks hooks;
    test::FakeProviders providers;
    rules::RuleBook book{store, hooks};
    Api api{Context{book, providers, "1.2.3", "test build"}, Tokens()};
};

const std::string kKey = "/config/loadbalancer/externalipaddress/127.0.0.1/port/8080/protocol/tcp";

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a rule's status and what it carried") {
    post_rule();
    EndpointLive endpoint;
    endpoint.state = "inactive";
    providers.endpoint_state = endpoint;
    providers.live.changed_us = 1'700'000'000'000'000;
    providers.live.active = 2;
    providers.live.requests = 7;
    providers.live.bytes_in = 100;
    providers.live.bytes_out = 2000;
    CHECK(
        reply("GET", kKey + "/status") ==
        R"({"adminStateUp":true,"lastUpdated":"2023-11-14T22:13:20.000Z","operatingStatus":"OFFLINE"})");
    CHECK(reply("GET", kKey + "/stats") ==
          R"({"activeConnections":2,"bytesIn":100,"bytesOut":2000,"totalConnections":7})");
}

TEST_CASE_FIXTURE(Fixture, "one of several rules of an address must be named") {
    CHECK(refusal("GET", kKey + "/status") == "404 no_rule");
    post_rule({{"model_name", R"("a")"}});
    CHECK(has(reply("GET", kKey + "/status"), "NO_MONITOR"));
    post_rule({{"model_name", R"("b")"}});
    CHECK(refusal("GET", kKey + "/status") == "400 ambiguous_key");
    CHECK(refusal("GET", kKey + "/stats") == "400 ambiguous_key");
    CHECK(has(reply("GET", kKey + "/status?model_name=b"), "NO_MONITOR"));
    CHECK(refusal("GET", kKey + "/status?model_name=c") == "404 no_rule");
    post_rule();  // exactly the key that the path spells
    CHECK(has(reply("GET", kKey + "/status"), "NO_MONITOR"));
    CHECK(refusal("GET", kKey + "/status?colour=red") == "400 unknown_parameter");
    CHECK(refusal("DELETE", kKey + "/status") == "405 method_not_allowed");
}

TEST_CASE_FIXTURE(Fixture, "the KV-exact state of every rule of an address that has it") {
    post_rule({{"model_name", R"("plain")"}});
    CHECK(reply("GET", kKey + "/kvexactstatus") == R"({"kvExactStatusAttr":[]})");
    post_rule({{"model_name", R"("exact")"}, {"kvExactMode", "3"}});
    EndpointLive endpoint;
    endpoint.kv = KvLive{7, "dead", "unproven", "unreachable", {}};
    providers.endpoint_state = endpoint;
    const std::string all = reply("GET", kKey + "/kvexactstatus");
    CHECK(has(all, R"("enforcedState":"ENFORCEMENT_FAULT")"));
    CHECK(has(all, R"("reasonCodes":["unreachable"])"));
    CHECK(has(all, R"("modelName":"exact")"));
    CHECK(has(all, R"("enforcement":{"enforced":false,"goFenced":false})"));
    CHECK(reply("GET", kKey + "/kvexactstatus?model_name=exact") == all);
    CHECK(reply("GET", kKey + "/kvexactstatus?model_name=plain") == R"({"kvExactStatusAttr":[]})");
    CHECK(refusal("GET", kKey + "/kvexactstatus?model_name=none") == "404 no_rule");
}

TEST_CASE_FIXTURE(Fixture, "probes are listed with their delays") {
    HealthRow row;
    row.host = "10.0.0.7";
    row.name = "10.0.0.7_http_8000";
    row.probe.kind = rules::ProbeSpec::Kind::Https;
    row.probe.path = "/health";
    row.probe.port = 8000;
    row.probe.interval_sec = 5;
    row.probe.method = "POST";
    row.probe.codes = "200-204";
    row.probe.version = "1.0";
    row.probe.domain = "a.example";
    row.probe.reply = "ok";
    row.is_up = false;
    row.reason = "probe: status 500";
    row.tries = 3;
    row.min_us = 240;
    row.avg_us = 1'260;
    row.max_us = 20'000;
    row.rules = {1, 4};
    providers.probes = {row};
    const std::string all = reply("GET", "/config/endpoint/all");
    for (const char* part : {R"("hostName":"10.0.0.7")", R"("currState":"nok")",
                             R"("minDelay":"0.2ms")",    R"("avgDelay":"1.3ms")",
                             R"("maxDelay":"20.0ms")",   R"("probeReq":"/health")",
                             R"("urlPath":"/health")",   R"("expectedCodes":"200-204")",
                             R"("rules":[1,4])",         R"("httpMethod":"POST")",
                             R"("httpVersion":"1.0")",   R"("domainName":"a.example")",
                             R"("probeResp":"ok")",      R"("probeType":"https")",
                             R"("probeDuration":5)",     R"("inactiveReTries":2)",
                             R"("probePort":8000)",      R"("reason":"probe: status 500")",
                             R"("hostState":"green")",   R"("hostStates":[])"}) {
        CAPTURE(part);
        CHECK(has(all, part));
    }
    providers.probes.front().tries = 0;
    CHECK(has(reply("GET", "/config/endpoint/all"), R"("avgDelay":"")"));
}

TEST_CASE_FIXTURE(Fixture, "a health object is stored, replaced, deleted and audited") {
    const std::string object =
        R"({"hostName":"10.0.0.7","name":"a","probeType":"tcp","probePort":80)";
    CHECK(reply("POST", "/config/endpoint", object + "}") == R"({"result":"Success"})");
    const std::string key(rules::HealthObjects::kSetting);
    CHECK(has(store.settings.at(key), R"("probeDuration":60)"));
    CHECK(store.trail.back().action == "endpoint.create");
    CHECK(store.trail.back().subject == "10.0.0.7 a");
    reply("POST", "/config/endpoint", object + R"(,"probeDuration":5})");
    CHECK(has(store.settings.at(key), R"("probeDuration":5)"));
    CHECK(store.trail.back().action == "endpoint.replace");
    CHECK(has(store.trail.back().before, R"("probeDuration":60)"));
    CHECK(hooks.settings.back().second == store.settings.at(key));

    const std::string at = "/config/endpoint/epipaddress/10.0.0.7";
    CHECK(refusal("DELETE", at + "?name=b") == "404 no_health_object");
    CHECK(refusal("DELETE", at + "?probe_type=http") == "404 no_health_object");
    CHECK(refusal("DELETE", at + "?probe_port=81") == "404 no_health_object");
    CHECK(refusal("DELETE", "/config/endpoint/epipaddress/here") == "400 malformed_key");
    CHECK(store.settings.at(key) != "[]");
    reply("DELETE", at + "?name=a&probe_type=tcp&probe_port=80");
    CHECK(store.settings.at(key) == "[]");
    CHECK(store.trail.back().action == "endpoint.delete");
    CHECK(refusal("DELETE", at) == "404 no_health_object");
}

TEST_CASE_FIXTURE(Fixture, "a refused health object changes nothing") {
    CHECK(refusal("POST", "/config/endpoint",
                  R"({"hostName":"10.0.0.7","probeType":"sctp","probePort":7})") ==
          "400 probe_impossible");
    CHECK(refusal("POST", "/config/endpoint", R"({"hostName":"10.0.0.7","probeType":"sctp"})") ==
          "400 malformed_health_object");
    CHECK(refusal("POST", "/config/endpoint", "no JSON") == "400 malformed_json");
    CHECK(store.commits == 0);
    store.fail_with = Error{Code::Limit, "disk full"};
    CHECK(refusal("POST", "/config/endpoint", R"({"hostName":"10.0.0.7"})") == "507 storage_full");
    CHECK(hooks.settings.empty());
}

TEST_CASE_FIXTURE(Fixture, "a probe that only a rule has cannot be deleted") {
    HealthRow row;
    row.host = "10.0.0.7";
    row.probe.kind = rules::ProbeSpec::Kind::Tcp;
    row.probe.port = 80;
    row.rules = {1};
    providers.probes = {row};
    CHECK(refusal("DELETE", "/config/endpoint/epipaddress/10.0.0.7?probe_port=80") ==
          "409 probe_in_use");
    CHECK(refusal("DELETE", "/config/endpoint/epipaddress/10.0.0.7?probe_port=81") ==
          "404 no_health_object");
}

TEST_CASE_FIXTURE(Fixture, "a host's state is stored for endpoints that some rule has") {
    const std::string path = "/config/endpointhoststate";
    const std::string yellow = R"({"hostName":"127.0.0.2","epPort":8000,"state":"yellow"})";
    CHECK(refusal("POST", path, yellow) == "404 no_endpoint");
    CHECK(store.commits == 0);
    post_rule();
    CHECK(reply("POST", path, yellow) == R"({"result":"Success"})");
    CHECK(store.trail.back().action == "endpoint.host_state");
    CHECK(store.trail.back().before == "green");
    CHECK(store.trail.back().after == "yellow");
    CHECK(has(reply("GET", "/config/endpoint/all"),
              R"({"epPort":8000,"epProto":"tcp","hostName":"127.0.0.2","state":"yellow"})"));
    CHECK(refusal("POST", path, R"({"hostName":"127.0.0.2","epPort":8001,"state":"red"})") ==
          "404 no_endpoint");
    reply("DELETE", "/config/loadbalancer/all");
    // The state outlives the rule and can be taken back.
    reply("POST", path, R"({"hostName":"127.0.0.2","epProto":"tcp","state":"green"})");
    CHECK(store.settings.at(std::string(rules::HostStates::kSetting)) == "[]");
    CHECK(refusal("POST", path, R"({"hostName":"127.0.0.2","state":"red"})") == "404 no_endpoint");
}

TEST_CASE_FIXTURE(Fixture, "what a host still has in flight is its progress") {
    post_rule();
    const std::string path = "/config/endpointhoststate";
    CHECK(reply("GET", path) == R"({"hostStates":[]})");
    reply("POST", path, R"({"hostName":"127.0.0.2","epPort":8000,"state":"yellow"})");
    reply("POST", path, R"({"hostName":"127.0.0.2","state":"red"})");
    reply("POST", path, R"({"hostName":"127.0.0.2","epPort":8000,"state":"yellow"})");
    providers.loads = {{"127.0.0.2", 8000, 3, true},
                       {"127.0.0.2", 8001, 0, true},
                       {"127.0.0.9", 80, 2, false},
                       {"127.0.0.9", 81, 0, false}};
    CHECK(reply("GET", path) ==
          R"({"hostStates":[)"
          R"({"drained":true,"epPort":0,"epProto":"tcp","hostName":"127.0.0.2","inflight":0,)"
          R"("state":"red"},)"
          R"({"drained":false,"epPort":8000,"epProto":"tcp","hostName":"127.0.0.2","inflight":3,)"
          R"("state":"yellow"},)"
          R"({"drained":false,"epPort":80,"epProto":"tcp","hostName":"127.0.0.9","inflight":2,)"
          R"("state":"removed"}]})");
}

TEST_CASE_FIXTURE(Fixture, "a host state that is wrong is refused by name") {
    post_rule();
    const int commits = store.commits;
    struct Row {
        const char* json;
        const char* want;
    };
    for (const Row& row : {
             Row{R"({"state":"red"})", "422 required"},
             Row{R"({"hostName":"127.0.0.2"})", "422 required"},
             Row{R"({"hostName":"127.0.0.2","state":"blue"})", "422 unknown_value"},
             Row{R"({"hostName":"127.0.0.2","state":1})", "422 wrong_type"},
             Row{R"({"hostName":"there","state":"red"})", "400 malformed_host"},
             Row{R"({"hostName":"127.0.0.2","state":"red","epPort":65536})", "422 out_of_range"},
             Row{R"({"hostName":"127.0.0.2","state":"red","epPort":"80"})", "422 wrong_type"},
             Row{R"({"hostName":"127.0.0.2","state":"red","epProto":"udp"})", "422 unknown_value"},
             Row{"[]", "400 malformed_json"},
         }) {
        CAPTURE(row.json);
        CHECK(refusal("POST", "/config/endpointhoststate", row.json) == row.want);
    }
    CHECK(refusal("POST", "/config/endpointhoststate",
                  R"({"hostName":"127.0.0.2","state":"red","colour":1})") == "400 unknown_field");
    CHECK(store.commits == commits);
}

TEST_CASE_FIXTURE(Fixture, "a stream of receipts takes filters and a sample") {
    class Nothing final : public StreamSource {
        bool next(std::string&) override { return true; }
    };
    providers.stream = std::make_shared<Nothing>();
    const Response response = ask("GET", "/status/flows/stream?rule=r&model=m&outcome=ok&every=10");
    CHECK(response.stream == providers.stream);
    CHECK(response.content_type == "text/event-stream");
    CHECK(providers.asked.rule == "r");
    CHECK(providers.asked.model == "m");
    CHECK(providers.asked.outcome == "ok");
    CHECK(providers.asked_every == 10);
    CHECK(refusal("GET", "/status/flows/stream?every=0") == "400 bad_parameter");
    CHECK(refusal("GET", "/status/flows/stream?outcome=fine") == "400 bad_parameter");
}

TEST_SUITE_END();
