#include <doctest/doctest.h>

#include "core/base/log.hpp"
#include "core/rules/field.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("rules/patch");

using namespace sluice;
using namespace sluice::rules;
using test::body;

namespace {

struct Fixture {
    test::MemoryStore store;
    test::RecordingHooks hooks;
    RuleBook book{store, hooks};
    Actor actor{"ann", "127.0.0.9"};
    RulePtr rule;

    RulePtr start(const std::string& text) {
        Outcome outcome = book.put(text, actor);
        REQUIRE_MESSAGE(!outcome.refusal.has_value(), outcome.refusal->message);
        rule = outcome.rule;
        return rule;
    }
    RulePtr patch(const std::string& text) {
        Outcome outcome = book.patch(rule->key, text, actor);
        REQUIRE_MESSAGE(!outcome.refusal.has_value(), outcome.refusal->message);
        return outcome.rule;
    }
    RulePtr argument(const std::string& name, const std::string& value) {
        return patch(R"({"serviceArguments":{")" + name + "\":" + value + "}}");
    }
};

std::string shown(const Rule& rule, const std::string& name) {
    const auto all = Json::parse(rule.effective);
    const auto it = all->object()->find(name);
    return it == all->object()->end() ? "" : it->second.dump();
}

// A value of the field that is not its default and that is taken alone.
std::string other_value(const Field& field) {
    const std::string_view name = field.name;
    if (name == "probereq" || name == "proberesp" || name == "probeport") {
        return "";  // with a probetype only
    }
    if (name == "breaker") {
        return "";  // with cb_enable only
    }
    if (name == "pd_disagg_mode" || name == "pd_cache_aware_mode" || name == "pdBootstrapPort") {
        return "";  // with endpoints of both roles only
    }
    if (name == "probetype") {
        return R"("none")";
    }
    if (name == "kvExactMode") {
        return "3";
    }
    if (name == "sel") {
        return "4";
    }
    if (name == "selector") {
        return R"("lc")";
    }
    if (name == "timeouts") {
        return R"({"connect_ms":7})";
    }
    if (name == "retry") {
        return R"({"connect":7})";
    }
    if (name == "backend_auth_file" || name == "trt_disagg_key_file" || name == "oper") {
        return "";  // with a file; not for patches
    }
    if (name == "kvRepublish") {
        return R"("tcp://10.0.0.1:5600")";
    }
    if (name == "kvEventsFrom") {
        return R"("http://10.0.0.1:11111")";
    }
    if (name == "privateIP") {
        return R"("10.0.0.1")";
    }
    switch (field.type) {
        case Type::Bool:
            return field.fallback == "true" ? "false" : "true";
        case Type::Uint:
            return std::to_string(field.min + (field.max > field.min + 2000 ? 1234 : 1));
        case Type::Text:
            if (!field.one_of.empty()) {
                const std::string_view words = field.built.empty() ? field.one_of : field.built;
                for (std::size_t at = 0; at < words.size();) {
                    const std::size_t end = std::min(words.find('|', at), words.size());
                    const std::string word = '"' + std::string(words.substr(at, end - at)) + '"';
                    if (word != field.fallback && word != "\"\"") {
                        return word;
                    }
                    at = end + 1;
                }
                return "";
            }
            return R"("text")";
        case Type::TextMap:
            return R"({"a":"b"})";
        case Type::Object:
            return R"({"a":1})";
        case Type::List:
            return "";
    }
    return "";
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "every mutable field is set by a patch, and null takes it out again") {
    start(body());
    const std::string plain = rule->json;
    std::uint64_t generation = 1;
    std::size_t fields = 0;
    for (const Field& field : service_fields()) {
        const bool is_free = !field.is_immutable && (field.standing == Standing::Built ||
                                                     field.standing == Standing::Stored);
        const std::string value = is_free ? other_value(field) : "";
        if (value.empty()) {
            continue;
        }
        const std::string name(field.name);
        CAPTURE(name);
        const RulePtr changed = argument(name, value);
        CHECK(changed->generation == ++generation);
        CHECK(changed->json.find('"' + name + "\":") != std::string::npos);
        CHECK(changed->number == rule->number);
        CHECK(argument(name, "null")->json == plain);
        ++generation;
        ++fields;
    }
    CHECK(fields > 35);
    CHECK(store.trail.back().action == "rule.patch");
    CHECK(store.trail.back().after == plain);
}

TEST_CASE_FIXTURE(Fixture, "an immutable field keeps its value, and setting it to that is fine") {
    start(body({{"externalIP", R"("::1")"},
                {"host", R"("Api.example:80")"},
                {"path_prefix", R"("/v1/")"},
                {"path_match_mode", R"("prefix")"},
                {"model_name", R"("org/m")"},
                {"block", "3"},
                {"id", R"("r-1")"}}));
    struct Row {
        std::string name, same, other;
    };
    for (const Row& row : {Row{"externalIP", R"("0:0::1")", R"("::2")"},
                           Row{"externalIP", R"("::1")", "null"},
                           Row{"port", "8080", "8081"},
                           Row{"port", "8080", "-1"},
                           Row{"portMax", "8080", "8090"},
                           Row{"portMax", "0", "8090"},
                           Row{"portMax", "null", "8090"},
                           Row{"protocol", R"("TCP")", R"("udp")"},
                           Row{"host", R"("api.EXAMPLE")", R"("b.example")"},
                           Row{"host", R"("api.example:443")", "null"},
                           Row{"host", R"("api.example")", R"("*.x")"},
                           Row{"path_prefix", R"("/v1")", R"("/v2")"},
                           Row{"path_match_mode", R"("prefix")", R"("exact")"},
                           Row{"path_match_mode", R"("prefix")", R"("disabled")"},
                           Row{"model_name", R"("org/m")", R"("Org/m")"},
                           Row{"block", "3", "null"},
                           Row{"mode", "4", "0"},
                           Row{"mode", "4", "null"},
                           Row{"security", "0", "1"},
                           Row{"security", "null", "2"},
                           Row{"egress", "false", "true"},
                           Row{"kvEngineType", R"("vllm")", R"("trtllm")"},
                           Row{"kvEngineType", "null", R"("sglang")"},
                           Row{"engine", R"("vllm")", R"("acme")"},
                           Row{"kvModelProfile", R"("")", R"("p")"},
                           Row{"kvExactApiMode", R"("")", R"("chat")"},
                           Row{"id", R"("r-1")", R"("r-2")"},
                           Row{"id", R"("r-1")", "null"}}) {
        CAPTURE(row.name);
        CAPTURE(row.other);
        const RulePtr same = argument(row.name, row.same);
        CHECK(same->key == rule->key);
        CHECK(same->id == rule->id);
        CHECK(same->engine == rule->engine);
        const std::string before = store.text();
        const std::size_t trail = store.trail.size();
        const Outcome refused = book.patch(
            rule->key, R"({"serviceArguments":{")" + row.name + "\":" + row.other + "}}", actor);
        REQUIRE(refused.refusal.has_value());
        CHECK(refused.refusal->status == 409);
        CHECK(refused.refusal->code == "immutable");
        CHECK(refused.refusal->field == row.name);
        CHECK(store.text() == before);
        CHECK(store.trail.size() == trail);
    }
}

TEST_CASE_FIXTURE(Fixture, "objects are merged, lists are replaced") {
    start(body({{"annotations", R"({"a":"1","b":"2"})"}, {"timeouts", R"({"connect_ms":5})"}}, {},
               {{"allowedSources", R"([{"prefix":"10.0.0.0/8"}])"}}));
    RulePtr changed = patch(
        R"({"serviceArguments":{"annotations":{"a":null,"c":"3"},"timeouts":{"header_ms":6}},
            "allowedSources":[{"prefix":"192.0.2.0/24"}]})");
    CHECK(changed->json.find(R"("annotations":{"b":"2","c":"3"})") != std::string::npos);
    CHECK(changed->timeouts.connect_ms == 5);
    CHECK(changed->timeouts.header_ms == 6);
    CHECK(changed->allowed_sources == std::vector<std::string>{"192.0.2.0/24"});
    CHECK(patch(R"({"allowedSources":null})")->allowed_sources.empty());
}

TEST_CASE_FIXTURE(Fixture,
                  "the endpoints of a patch are the rule's, and those that stay are the same") {
    start(body());
    const RulePtr changed = patch(
        R"({"endpoints":[{"endpointIP":"127.0.0.3","targetPort":1,"weight":1,"state":"active"},
                         {"endpointIP":"127.0.0.2","targetPort":8000,"weight":5}]})");
    REQUIRE(changed->endpoints.size() == 2);
    CHECK(changed->endpoints[0].id == rule->endpoints[0].id);
    CHECK(changed->endpoints[0].ep_idx == 0);
    CHECK(changed->endpoints[0].weight == 5);
    CHECK(changed->endpoints[1].ep_idx == 1);
    const RulePtr without =
        patch(R"({"endpoints":[{"endpointIP":"127.0.0.3","targetPort":1,"weight":1}]})");
    CHECK(without->endpoints[0].id == changed->endpoints[1].id);
    const RulePtr back =
        patch(R"({"endpoints":[{"endpointIP":"127.0.0.2","targetPort":8000,"weight":5}]})");
    CHECK(back->endpoints[0].id == 3);
    CHECK(back->endpoints[0].ep_idx == 2);
}

TEST_CASE_FIXTURE(Fixture, "a patch that changes nothing is taken and does nothing") {
    start(body({{"bgp", "true"}, {"name", R"("n")"}}));
    hooks.log.clear();
    for (const std::string& text :
         {std::string("{}"), std::string(R"({"serviceArguments":{}})"),
          std::string(R"({"serviceArguments":{"name":"n"}})"),
          std::string(R"({"serviceArguments":{"host":null,"adminStateUp":true,"oper":0}})"),
          std::string(R"({"number":7,"warnings":[],"effective":{"sel":1},"id":"other"})"),
          rule->json}) {
        CAPTURE(text);
        const Outcome outcome = book.patch(rule->key, text, actor);
        REQUIRE_FALSE(outcome.refusal.has_value());
        CHECK(outcome.rule == rule);
        CHECK(outcome.warnings.size() == 1);
    }
    CHECK(store.commits == 1);
    CHECK(hooks.log.empty());
}

TEST_CASE_FIXTURE(Fixture, "a refused patch says why and changes nothing") {
    start(body());
    struct Row {
        std::string patch;
        int status;
        std::string code, field;
    };
    const std::string stored = store.text();
    const auto table = book.table();
    hooks.log.clear();
    const auto arguments = [](const std::string& members) {
        return R"({"serviceArguments":{)" + members + "}}";
    };
    for (const Row& row :
         {Row{"", 400, "malformed_json", ""},
          Row{"null", 400, "malformed_json", ""},
          Row{"[]", 400, "malformed_json", ""},
          Row{R"({"sel":4})", 400, "unknown_field", "sel"},
          Row{R"({"sel":null})", 400, "unknown_field", "sel"},
          Row{R"({"serviceArguments":null})", 400, "required", "serviceArguments"},
          Row{R"({"serviceArguments":[]})", 422, "wrong_type", "serviceArguments"},
          Row{R"({"endpoints":[]})", 400, "endpoints_range", "endpoints"},
          Row{R"({"endpoints":null})", 400, "endpoints_range", "endpoints"},
          Row{R"({"endpoints":{}})", 422, "wrong_type", "endpoints"},
          Row{R"({"endpoints":[{"endpointIP":"x","targetPort":1,"weight":1}]})", 400,
              "malformed_lbep", "endpoints[0].endpointIP"},
          Row{R"({"allowedSources":[{"prefix":"x"}]})", 400, "malformed_source",
              "allowedSources[0].prefix"},
          Row{arguments(R"("probetimeout":5)"), 400, "unknown_field", "probetimeout"},
          Row{arguments(R"("probetimeout":null)"), 400, "unknown_field", "probetimeout"},
          Row{arguments(R"("port":"80")"), 422, "wrong_type", "port"},
          Row{arguments(R"("probeRetries":101)"), 422, "out_of_range", "probeRetries"},
          Row{arguments(R"("probeport":9)"), 400, "malformed_service_pport", "probeport"},
          Row{arguments(R"("kvExactMode":2)"), 400, "kv_exact_mode_reserved", "kvExactMode"},
          Row{arguments(R"("breaker":{"failures":7})"), 400, "breaker_needs_cb_enable", "breaker"},
          Row{arguments(R"("oper":1)"), 400, "oper_unused", "oper"},
          Row{arguments(R"("backend_auth_file":"***")"), 400, "auth_file_hidden",
              "backend_auth_file"},
          Row{arguments(R"("backend_auth_file":"/nowhere/at/all")"), 400, "auth_file_unusable",
              "backend_auth_file"}}) {
        CAPTURE(row.patch);
        const Outcome outcome = book.patch(rule->key, row.patch, actor);
        REQUIRE(outcome.refusal.has_value());
        CHECK(outcome.refusal->status == row.status);
        CHECK(outcome.refusal->code == row.code);
        CHECK(outcome.refusal->field == row.field);
        CHECK(store.text() == stored);
        CHECK(book.table() == table);
        CHECK(hooks.log.empty());
    }
    CHECK(store.trail.size() == 1);
    RuleKey other = rule->key;
    other.model = "m";
    CHECK(book.patch(other, "{}", actor).refusal->status == 404);
}

TEST_CASE_FIXTURE(Fixture, "a patch of a rule that is not in force says so") {
    log::set_sink([](log::Level, const std::string&) {});
    hooks.engine_names = {"vllm", "acme"};
    start(body({{"engine", R"("acme")"}}));
    hooks.engine_names = {"vllm"};
    REQUIRE(book.load().ok());
    log::set_sink({});
    const Outcome outcome = book.patch(rule->key, "{}", actor);
    REQUIRE(outcome.refusal.has_value());
    CHECK(outcome.refusal->status == 409);
    CHECK(outcome.refusal->code == "not_in_force");
}

TEST_CASE_FIXTURE(Fixture,
                  "a rule that was switched off stays off when its sleep is ended by a POST") {
    log::set_sink([](log::Level, const std::string&) {});
    hooks.engine_names = {"vllm", "acme"};
    start(body({{"engine", R"("acme")"}}));
    argument("adminStateUp", "false");
    hooks.engine_names = {"vllm"};
    REQUIRE(book.load().ok());
    log::set_sink({});
    REQUIRE(book.table()->rules().empty());
    CHECK_FALSE(start(body())->is_admin_up);
    CHECK(book.dormant().empty());
}

TEST_CASE_FIXTURE(Fixture, "a rule is switched off by a patch only, and a POST leaves it so") {
    const auto warned = [](const Outcome& outcome) {
        return outcome.warnings.size() == 1 && outcome.warnings[0].code == "admin_state_kept";
    };
    Outcome posted = book.put(body({{"adminStateUp", "false"}}), actor);
    REQUIRE_FALSE(posted.refusal.has_value());
    rule = posted.rule;
    CHECK(rule->is_admin_up);
    CHECK(warned(posted));
    const RulePtr off = argument("adminStateUp", "false");
    CHECK_FALSE(off->is_admin_up);
    CHECK(shown(*off, "adminStateUp") == "false");
    posted = book.put(body({{"name", R"("n")"}}), actor);
    REQUIRE_FALSE(posted.refusal.has_value());
    CHECK_FALSE(posted.rule->is_admin_up);
    CHECK(shown(*posted.rule, "adminStateUp") == "false");
    CHECK(book.put(body({{"name", R"("n")"}}), actor).refusal->code == "lbrule_exists");
    RuleBook again(store, hooks);
    REQUIRE(again.load().ok());
    CHECK_FALSE(again.table()->rules()[0]->is_admin_up);
    CHECK(argument("adminStateUp", "true")->is_admin_up);
}

TEST_CASE_FIXTURE(Fixture, "endpoints are attached and detached, whatever else stays") {
    start(body({{"name", R"("kept")"}, {"sel", "4"}}));
    const auto oper = [this](const char* number, const char* ip, const char* weight) {
        return book.put(body({{"oper", number}}, {{"endpointIP", ip}, {"weight", weight}}), actor);
    };
    Outcome outcome = oper("1", R"("127.0.0.3")", "2");
    REQUIRE_FALSE(outcome.refusal.has_value());
    CHECK(outcome.rule->name == "kept");
    CHECK(outcome.rule->sel == 4);
    REQUIRE(outcome.rule->endpoints.size() == 2);
    CHECK(outcome.rule->endpoints[0].id == rule->endpoints[0].id);
    CHECK(outcome.rule->endpoints[1].weight == 2);
    CHECK(outcome.rule->json.find("oper") == std::string::npos);
    CHECK(outcome.rule->effective.find("oper") == std::string::npos);
    CHECK(store.trail.back().action == "rule.attach");
    // One that is there is changed in place.
    outcome = oper("1", R"("127.0.0.3")", "7");
    REQUIRE_FALSE(outcome.refusal.has_value());
    CHECK(outcome.rule->endpoints[1].weight == 7);
    CHECK(outcome.rule->endpoints[1].ep_idx == 1);
    outcome = oper("2", R"("127.0.0.2")", "1");
    REQUIRE_FALSE(outcome.refusal.has_value());
    REQUIRE(outcome.rule->endpoints.size() == 1);
    CHECK(outcome.rule->endpoints[0].ip == "127.0.0.3");
    CHECK(store.trail.back().action == "rule.detach");
    CHECK(outcome.rule->generation == 4);
}

TEST_SUITE_END();
