#include "core/rules/parse.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/rules/event_addresses.hpp"
#include "core/rules/field.hpp"
#include "tests/unit/rules/bodies.hpp"

TEST_SUITE_BEGIN("rules/parse");

using namespace sluice;
using namespace sluice::rules;
using test::body;

namespace {

const Loaded kLoaded{{"vllm"}, {"rr", "lc", "wrr"}};

Parsed accepted(const std::string& text, const Defaults& defaults = {}) {
    Parsed parsed = parse_rule(text, defaults, kLoaded);
    REQUIRE_MESSAGE(!parsed.refusal.has_value(), parsed.refusal->message);
    return parsed;
}

Json effective_of(const Parsed& parsed) {
    return std::move(Json::parse(parsed.rule.effective).value());
}

std::string effective(const Parsed& parsed, const std::string& name) {
    const Json all = effective_of(parsed);
    const auto it = all.object()->find(name);
    return it == all.object()->end() ? "" : it->second.dump();
}

bool warns(const Parsed& parsed, const std::string& code, const std::string& field) {
    for (const Warning& w : parsed.warnings) {
        if (w.code == code && w.field == field && !w.message.empty()) {
            return true;
        }
    }
    return false;
}

ProbeSpec probe_spec(ProbeSpec::Kind kind, std::uint16_t port, std::string path,
                     std::uint32_t interval_sec, std::uint32_t retries) {
    ProbeSpec out;
    out.kind = kind;
    out.port = port;
    out.path = std::move(path);
    out.interval_sec = interval_sec;
    out.retries = retries;
    return out;
}

}  // namespace

TEST_CASE("the smallest body gets every default") {
    const Parsed parsed = accepted(body());
    const Rule& rule = parsed.rule;
    CHECK(rule.key == RuleKey{"127.0.0.1", 8080, "tcp", 0, "", "", "", ""});
    CHECK(rule.sel == 0);
    CHECK(rule.selector == "rr");
    CHECK(rule.engine == "vllm");
    CHECK(rule.probe == ProbeSpec{});
    CHECK(rule.timeouts == Timeouts{});
    CHECK(rule.retry == Retry{});
    CHECK(rule.max_body_bytes == 64U << 20U);
    CHECK(rule.kv.exact_mode == 0);
    CHECK_FALSE(rule.kv.block_tokens.has_value());
    CHECK_FALSE(rule.kv.hash_algo.has_value());
    CHECK_FALSE(rule.kv.hash_seed.has_value());
    CHECK_FALSE(rule.kv.zmq_port.has_value());
    CHECK_FALSE(rule.kv.replay_port.has_value());
    CHECK(rule.kv.mean_load_factor == 175);
    CHECK(rule.kv.max_blocks == 1'000'000);
    CHECK(rule.plugin_config == "{}");
    REQUIRE(rule.endpoints.size() == 1);
    CHECK(rule.endpoints[0].name() == "127.0.0.2:8000");
    CHECK(rule.endpoints[0].base_url() == "http://127.0.0.2:8000");
    CHECK(parsed.warnings.empty());
    CHECK(
        rule.json ==
        R"({"endpoints":[{"endpointIP":"127.0.0.2","targetPort":8000,"weight":1}],)"
        R"("serviceArguments":{"externalIP":"127.0.0.1","mode":4,"port":8080,"protocol":"tcp"}})");
}

TEST_CASE("the documented vLLM rule is taken as it stands") {
    const Parsed parsed = accepted(
        R"({"serviceArguments":{"externalIP":"10.10.10.254","port":8080,"protocol":"tcp","sel":0,"mode":4,"security":0,
  "backend_protocol":"http1","monitor":true,"probetype":"http","probeport":8000,"probereq":"/health","probeTimeout":5,"probeRetries":2},
 "endpoints":[{"endpointIP":"198.51.100.1","targetPort":8000,"weight":1},{"endpointIP":"192.0.2.1","targetPort":8000,"weight":1}]})");
    const Rule& rule = parsed.rule;
    CHECK(rule.probe == probe_spec(ProbeSpec::Kind::Http, 8000, "/health", 5, 2));
    REQUIRE(rule.endpoints.size() == 2);
    CHECK(rule.endpoints[0].ip == "192.0.2.1");  // numbered by address, as the interface has it
    CHECK(rule.endpoints[1].ip == "198.51.100.1");
    CHECK(parsed.warnings.empty());
}

TEST_CASE("the documented TensorRT-LLM rule is taken as it stands") {
    const std::string pd =
        R"({"serviceArguments":{"externalIP":"192.0.2.10","port":2040,"protocol":"tcp","sel":0,"mode":4,"security":0,"pd_disagg_mode":true,
  "kvEngineType":"trtllm","kvExactMode":1,"kvBlockSize":32,"kvWarmupSec":5,"sse_mode":true,"host":"192.0.2.10","monitor":true,"cb_enable":true,
  "probetype":"http","probeport":8355,"probereq":"/health","probeTimeout":5,"probeRetries":2},
 "endpoints":[{"endpointIP":"198.51.100.11","targetPort":8355,"weight":1,"ep_role":1},
  {"endpointIP":"198.51.100.12","targetPort":8355,"weight":1,"ep_role":1},{"endpointIP":"198.51.100.21","targetPort":8355,"weight":1,"ep_role":2}]})";
    static const Loaded kBoth{{"vllm", "trtllm"}, {"rr"}};
    const auto code = [](const std::string& text) {
        const Parsed parsed = parse_rule(text, {}, kBoth);
        return parsed.refusal ? parsed.refusal->code : std::string();
    };
    const auto with = [&pd](const std::string& member) {
        std::string out = pd;
        return out.replace(out.find("\"sel\":0"), 7, member);
    };
    CHECK(code(pd).empty());
    CHECK(code(with(R"("kvZmqPort":5557)")).empty());
    CHECK(code(with(R"("kvHashAlgo":"sha256_cbor")")) == "kv_hash_algo_incompatible");
    CHECK(code(with(R"("kvHashAlgo":"blockhash_trtllm")")).empty());
    const Parsed parsed = parse_rule(pd, {}, kBoth);
    CHECK(parsed.rule.pd.is_on);
    CHECK(parsed.rule.kv.exact_mode == 1);
    CHECK(parsed.rule.breaker == BreakerSpec{true, 3, 30'000, 3, 3});
}

TEST_CASE("the values of P/D arrive in the rule, 0 where 0 is given") {
    const std::string pair =
        R"([{"endpointIP":"10.0.0.1","targetPort":1,"weight":1,"ep_role":1,"nixl_port":5600},)"
        R"({"endpointIP":"10.0.0.2","targetPort":1,"weight":1,"ep_role":2}])";
    const auto on = [&pair](test::Members service) {
        service.emplace_back("pd_disagg_mode", "true");
        return accepted(test::body(service, {}, {{"endpoints", pair}}));
    };
    const PdSpec usual = on({}).rule.pd;
    CHECK(usual.session_ttl_sec == 300);
    CHECK(usual.cache_threshold == 20);
    CHECK(usual.balance_threshold == 3);
    CHECK(usual.prefill_ms == 120'000);
    CHECK(usual.max_inflight == 0);
    const Parsed given = on({{"pd_cache_aware_mode", "true"},
                             {"pd_session_ttl_sec", "0"},
                             {"pd_cache_threshold", "0"},
                             {"pd_balance_abs_threshold", "300"},
                             {"pd_min_prompt_tokens", "7"},
                             {"pd_conditional", "true"},
                             {"pd_decode_only_fallback", "true"},
                             {"pd_prefill_timeout_ms", "1"},
                             {"pd_decode_first_byte_ms", "2"},
                             {"pd_max_inflight_per_ep", "3"},
                             {"pd_queue_depth_per_ep", "4"},
                             {"pd_max_park_ms", "5"},
                             {"kvExactMode", "1"}});
    const PdSpec& pd = given.rule.pd;
    CHECK(pd.is_cache_aware);
    CHECK(pd.session_ttl_sec == 0);
    CHECK(pd.cache_threshold == 0);
    CHECK(pd.balance_threshold == 300);
    CHECK(pd.min_prompt_tokens == 7);
    CHECK(pd.is_conditional);
    CHECK(pd.has_decode_fallback);
    CHECK(pd.prefill_ms == 1);
    CHECK(pd.decode_first_byte_ms == 2);
    CHECK(pd.max_inflight == 3);
    CHECK(pd.queue_depth == 4);
    CHECK(pd.max_park_ms == 5);
    CHECK(given.rule.endpoints[0].role == 1);
    CHECK(given.rule.endpoints[0].nixl_port == 5600);
    CHECK(given.warnings.empty());
}

TEST_CASE("what does nothing on this rule is said") {
    CHECK(warns(accepted(body({{"pd_cache_threshold", "5"}})), "no_effect", "pd_cache_threshold"));
    CHECK(warns(accepted(body({}, {{"ep_role", "1"}})), "no_effect", "endpoints"));
}

TEST_CASE("a breaker is there when it is asked for, with the numbers that were given") {
    CHECK(accepted(body({})).rule.breaker == BreakerSpec{});
    const std::string numbers = R"({"failures":7,"open_ms":1,"half_open_trials":2,"origin_5xx":0})";
    CHECK(accepted(body({{"cb_enable", "true"}, {"breaker", numbers}})).rule.breaker ==
          BreakerSpec{true, 7, 1, 2, 0});
    CHECK(accepted(body({{"cb_enable", "true"}})).rule.breaker ==
          BreakerSpec{true, 5, 30'000, 3, 3});
}

TEST_CASE("every field that is built arrives in the rule") {
    const Parsed parsed = accepted(body(
        {{"id", R"("r-1")"},
         {"name", R"("chat")"},
         {"externalIP", R"("FD00::0001")"},
         {"host", R"("API.example:443")"},
         {"path_prefix", R"("/v1/")"},
         {"path_match_mode", R"("prefix")"},
         {"model_name", R"("org/m")"},
         {"sel", "4"},
         {"probetype", R"("tcp")"},
         {"probeport", "9"},
         {"probeTimeout", "7"},
         {"probeRetries", "3"},
         {"kvEngineType", R"("vllm")"},
         {"kvExactMode", "3"},
         {"kvBlockSize", "32"},
         {"kvHashAlgo", R"("sha256")"},
         {"kvHashSeed", R"("0")"},
         {"kvZmqPort", "6000"},
         {"kvReplayPort", "0"},
         {"kvDpRankCount", "2"},
         {"kvWarmupSec", "4"},
         {"kvLbMode", R"("off")"},
         {"kvMeanLoadFactor", "200"},
         {"kvMinMatchTokens", "0"},
         {"kvColdSeedEvery", "0"},
         {"kvColdSeedMinBlocks", "5"},
         {"kvMaxBlocks", "1000"},
         {"model_aliases", R"({"a":"b"})"},
         {"timeouts",
          R"({"header_ms":1,"body_ms":2,"connect_ms":3,"first_byte_ms":4,"chunk_gap_ms":5,"total_ms":6,"client_idle_ms":7})"},
         {"max_body_bytes", "1024"},
         {"retry", R"({"connect":1,"not_accepted":false,"after_dispatch":true})"},
         {"plugin_config", R"({"vllm":{"x":1.5}})"}},
        {{"endpointIP", R"("fd00::2")"}, {"weight", "0"}, {"nixl_port", "5600"}}));
    const Rule& rule = parsed.rule;
    CHECK(rule.id == "r-1");
    CHECK(rule.name == "chat");
    CHECK(rule.key == RuleKey{"fd00::1", 8080, "tcp", 0, "api.example", "/v1", "prefix", "org/m"});
    CHECK(rule.sel == 4);
    CHECK(rule.selector == "lc");
    CHECK(rule.probe == probe_spec(ProbeSpec::Kind::Tcp, 9, "/", 7, 3));
    CHECK(rule.kv.exact_mode == 3);
    CHECK(rule.kv.block_tokens == 32);
    CHECK(rule.kv.hash_algo == "sha256");
    CHECK(rule.kv.hash_seed == "0");
    CHECK(rule.kv.zmq_port == 6000);
    CHECK(rule.kv.replay_port == 0);
    CHECK(rule.kv.dp_ranks == 2);
    CHECK(rule.kv.warmup_sec == 4);
    CHECK(rule.kv.lb_mode == KvSpec::LbMode::Off);
    CHECK(rule.kv.mean_load_factor == 200);
    CHECK(rule.kv.min_match_tokens == 0);
    CHECK(rule.kv.cold_seed_every == 0);
    CHECK(rule.kv.cold_seed_min_blocks == 5);
    CHECK(rule.kv.max_blocks == 1000);
    CHECK(rule.model_aliases.at("a") == "b");
    CHECK(rule.timeouts == Timeouts{7, 1, 2, 3, 4, 5, 6});
    CHECK(rule.retry == Retry{1, false, true});
    CHECK(rule.max_body_bytes == 1024);
    CHECK(rule.plugin_config == R"({"vllm":{"x":1.5}})");
    CHECK(rule.endpoints[0].name() == "[fd00::2]:8000");
    CHECK(rule.endpoints[0].weight == 0);
    CHECK(rule.endpoints[0].nixl_port == 5600);
    CHECK(warns(parsed, "all_draining", "endpoints"));
    // The identity is stored beside it.
    CHECK(rule.json.find("\"id\"") == std::string::npos);
    CHECK(effective(parsed, "id").empty());
}

TEST_CASE("values in force are shown, whoever set them") {
    const Parsed parsed = accepted(body({{"kvMinMatchTokens", "8"}, {"kvZmqPort", "6000"}}));
    CHECK(effective(parsed, "kvMinMatchTokens") == "8");
    CHECK(effective(parsed, "kvMeanLoadFactor") == "175");
    CHECK(effective(parsed, "kvReplayPort") == "7000");
    CHECK(effective(parsed, "monitor") == "false");
    CHECK(effective(parsed, "probetype") == "\"none\"");
    CHECK(effective(parsed, "selector") == "\"rr\"");
    CHECK(effective(parsed, "retry") ==
          R"({"after_dispatch":false,"connect":3,"not_accepted":true})");
    CHECK(effective(parsed, "kvBlockSize").empty());  // declared by nobody
}

TEST_CASE("inactiveTimeOut is the idle limit of a client, and 0 is none given") {
    const Parsed parsed = accepted(body({{"inactiveTimeOut", "30"}}));
    CHECK(parsed.rule.timeouts.client_idle_ms == 30'000);
    CHECK(parsed.rule.timeouts.body_ms == 60'000);
    CHECK(effective(parsed, "timeouts").find("\"client_idle_ms\":30000") != std::string::npos);
    CHECK(accepted(body({{"inactiveTimeOut", "0"}})).rule.timeouts.client_idle_ms == 75'000);
    CHECK(effective(accepted(body()), "inactiveTimeOut") == "75");
    CHECK(effective(accepted(body({{"timeouts", R"({"client_idle_ms":1500})"}})), "inactiveTimeOut")
              .empty());
    CHECK(accepted(body({{"inactiveTimeOut", "30"}, {"timeouts", R"({"client_idle_ms":30000})"}}))
              .rule.timeouts.client_idle_ms == 30'000);
}

TEST_CASE("monitoring follows the probe type") {
    struct Row {
        std::string name;
        test::Members service;
        ProbeSpec::Kind kind;
        std::string warning;
    };
    for (const Row& row :
         {Row{"monitor alone", {{"monitor", "true"}}, ProbeSpec::Kind::Tcp, ""},
          Row{"neither", {}, ProbeSpec::Kind::None, ""},
          Row{"type forces it",
              {{"monitor", "false"}, {"probetype", R"("tcp")"}, {"probeport", "1"}},
              ProbeSpec::Kind::Tcp,
              "monitor_forced"},
          Row{"none switches it off",
              {{"monitor", "true"}, {"probetype", R"("none")"}},
              ProbeSpec::Kind::None,
              "no_effect"}}) {
        CAPTURE(row.name);
        const Parsed parsed = accepted(body(row.service));
        CHECK(parsed.rule.probe.kind == row.kind);
        CHECK(warns(parsed, row.warning, "monitor") == !row.warning.empty());
    }
}

TEST_CASE("a probe path gets its leading slash") {
    for (const auto& [given, path] :
         {std::pair{R"("health")", "/health"}, std::pair{R"("/health?deep=1")", "/health?deep=1"},
          std::pair{R"("")", "/"}}) {
        const Parsed parsed = accepted(
            body({{"probetype", R"("http")"}, {"probeport", "8000"}, {"probereq", given}}));
        CHECK(parsed.rule.probe.path == path);
        CHECK(parsed.rule.probe.kind == ProbeSpec::Kind::Http);
    }
}

TEST_CASE("what is kept without effect is said") {
    CHECK(warns(accepted(body({{"bgp", "true"}})), "no_effect", "bgp"));
    CHECK(warns(accepted(body({{"block", "7"}})), "no_effect", "block"));
    CHECK(warns(accepted(body({{"kvBlockSize", "16"}})), "kv_exact_off", "kvBlockSize"));
    CHECK(accepted(body({{"bgp", "false"}, {"egress", "false"}})).warnings.empty());
    CHECK(warns(accepted(body({{"kvExactMode", "3"},
                               {"kvZmqPort", "5000"},
                               {"kvReplayPort", "5001"},
                               {"kvDpRankCount", "2"}})),
                "kv_ports_collide", "kvReplayPort"));
}

TEST_CASE("a selector is named by number or by plugin") {
    CHECK(accepted(body({{"sel", "2"}})).rule.selector == "wrr");
    const Parsed by_name = accepted(body({{"sel", "0"}, {"selector", R"("lc")"}}));
    CHECK(by_name.rule.selector == "lc");
    CHECK(by_name.rule.sel == 4);
    CHECK(effective(by_name, "sel") == "4");
    const Parsed missing = parse_rule(body({{"sel", "2"}}), {}, {{"vllm"}, {"rr"}});
    REQUIRE(missing.refusal.has_value());
    CHECK(missing.refusal->code == "not_supported_yet");
    CHECK(missing.refusal->allowed == "0");
}

TEST_CASE("every known field is accepted with its default") {
    for (const Field& field : service_fields()) {
        if (field.standing == Standing::ReadOnly) {
            continue;
        }
        std::string value(field.fallback);
        if (value.empty()) {
            value = field.type == Type::Uint      ? "0"
                    : field.type == Type::Bool    ? "false"
                    : field.type == Type::List    ? "[]"
                    : field.type == Type::TextMap ? "{}"
                    : field.type == Type::Object  ? "{}"
                                                  : "\"\"";
        }
        const bool is_needed = field.is_required || field.name == "kvBlockSize";
        const bool is_port_of_a_probe = field.name == "kvHashAlgo" || field.name.starts_with("fc_");
        if (is_needed || (is_port_of_a_probe && value == "\"\"")) {
            continue;  // these have no value that says nothing
        }
        CAPTURE(std::string(field.name));
        accepted(body({{std::string(field.name), value}}));
    }
}

TEST_CASE("a read-back can be sent again: read-only members are dropped") {
    const Parsed parsed = accepted(
        body({{"number", "4"}, {"effective", R"({"x":1})"}},
             {{"id", "9"}, {"ep_idx", "3"}, {"state", R"("active")"}, {"kv", R"({"blocks":1})"}},
             {{"number", "4"}, {"warnings", "[]"}, {"secondaryIPs", "[]"}}));
    CHECK(parsed.rule.json == accepted(body()).rule.json);
}

TEST_CASE("the order of endpoints and of members does not make another rule") {
    const std::string ab =
        R"([{"endpointIP":"10.0.0.9","targetPort":1,"weight":1},{"weight":2,"endpointIP":"10.0.0.10","targetPort":1}])";
    const std::string ba =
        R"([{"endpointIP":"10.0.0.10","targetPort":1,"weight":2},{"endpointIP":"10.0.0.9","targetPort":1,"weight":1}])";
    const Parsed one = accepted(body({}, {}, {{"endpoints", ab}}));
    const Parsed two = accepted(body({}, {}, {{"endpoints", ba}}));
    CHECK(one.rule.json == two.rule.json);
    CHECK(one.rule.endpoints[0].ip == "10.0.0.9");
    CHECK(one.rule.endpoints[1].weight == 2);
}

TEST_CASE("a thousand endpoints are a rule") {
    std::string many = "[";
    for (int i = 1; i <= 1024; ++i) {
        many += (i == 1 ? "" : ",") + std::string(R"({"endpointIP":"10.0.0.1","targetPort":)") +
                std::to_string(i) + R"(,"weight":1})";
    }
    many += "]";
    CHECK(accepted(body({}, {}, {{"endpoints", many}})).rule.endpoints.size() == 1024);
}

TEST_CASE("discovery and the fields of orchestrators are as the rule says") {
    CHECK(accepted(body()).rule.kv.is_discovered);
    CHECK(accepted(body()).rule.handoff == Handoff::Drop);
    CHECK_FALSE(accepted(body()).rule.is_engine_given);
    CHECK(accepted(body({{"kvEngineType", R"("vllm")"}})).rule.is_engine_given);
    CHECK_FALSE(accepted(body({{"kvDiscovery", R"("off")"}})).rule.kv.is_discovered);
    CHECK(accepted(body({{"client_handoff_fields", R"("refuse")"}})).rule.handoff ==
          Handoff::Refuse);
    CHECK(accepted(body({{"client_handoff_fields", R"("pass")"}})).rule.handoff == Handoff::Pass);
}

TEST_CASE("where events are published and taken from is read in one spelling") {
    struct Row {
        const char* text;
        const char* host;
        std::uint16_t port;
    };
    for (const Row& row :
         {Row{R"("tcp://127.0.0.1:5600")", "127.0.0.1", 5600}, Row{R"("tcp://*:1")", "*", 1},
          Row{R"("tcp://[FD00:0::7]:65535")", "[fd00::7]", 65535}}) {
        CAPTURE(row.text);
        const Parsed parsed = accepted(body({{"kvExactMode", "3"}, {"kvRepublish", row.text}}));
        const EventAddresses addresses = event_addresses(parsed.rule);
        REQUIRE(addresses.republish);
        CHECK(addresses.republish->host == row.host);
        CHECK(addresses.republish->port == row.port);
        const bool is_warned =
            std::any_of(parsed.warnings.begin(), parsed.warnings.end(),
                        [](const Warning& w) { return w.code == "kv_republish_open"; });
        CHECK(is_warned == (std::string_view(row.host) != "127.0.0.1"));
    }
    const Parsed reads =
        accepted(body({{"kvExactMode", "3"}, {"kvEventsFrom", R"("http://10.0.0.9:11111/")"}}));
    CHECK(event_addresses(reads.rule).events_from == "http://10.0.0.9:11111");
    CHECK_FALSE(event_addresses(reads.rule).republish);
    // Without KV-exact routing there are no events.
    const Parsed off = accepted(body({{"kvRepublish", R"("tcp://127.0.0.1:5600")"},
                                      {"kvEventsFrom", R"("http://10.0.0.9:11111")"}}));
    CHECK_FALSE(event_addresses(off.rule).republish);
    CHECK(event_addresses(off.rule).events_from.empty());
}

TEST_CASE("what an operator may switch on a live rule arrives in it") {
    const Parsed parsed = accepted(body(
        {{"adminStateUp", "false"},
         {"connectionLimit", "9"},
         {"max_stream_duration_sec", "60"},
         {"backend_keepalive_interval_sec", "15"},
         {"backend_auth_file", R"("/etc/key")"}},
        {{"backup", "true"}},
        {{"allowedSources",
          R"([{"prefix":"10.1.2.3/8"},{"prefix":"192.0.2.7"},{"prefix":"FD00::1/64"},{"prefix":"0.0.0.0/0"}])"}}));
    const Rule& rule = parsed.rule;
    CHECK_FALSE(rule.is_admin_up);
    CHECK(rule.connection_limit == 9);
    CHECK(rule.max_stream_sec == 60);
    CHECK(rule.keepalive_sec == 15);
    CHECK(rule.auth_file == "/etc/key");
    CHECK(rule.endpoints[0].backup);
    CHECK(rule.allowed_sources ==
          std::vector<std::string>{"10.0.0.0/8", "192.0.2.7/32", "fd00::/64", "0.0.0.0/0"});
    CHECK(effective(parsed, "backend_auth_file") == "\"***\"");
    CHECK(effective(parsed, "adminStateUp") == "false");
    const Parsed silent = accepted(body({}, {}, {{"allowedSources", "[]"}}));
    CHECK(silent.rule.is_admin_up);
    CHECK(silent.rule.connection_limit == 0);
    CHECK(silent.rule.auth_file.empty());
    CHECK(silent.rule.allowed_sources.empty());
    CHECK(effective(silent, "max_stream_duration_sec") == "86400");
    CHECK(silent.rule.json == accepted(body()).rule.json);
}

TEST_CASE("the hash seed of the process is a rule's unless it has its own") {
    auto defaults = Defaults::from(
        [](std::string_view name) {
            return name == "LLB_KV_NONE_HASH_SEED" ? std::optional<std::string>("7") : std::nullopt;
        },
        {});
    REQUIRE(defaults.ok());
    CHECK(accepted(body(), *defaults).rule.kv.hash_seed == "7");
    CHECK(accepted(body({{"kvHashSeed", R"("8")"}}), *defaults).rule.kv.hash_seed == "8");
}

TEST_SUITE_END();
