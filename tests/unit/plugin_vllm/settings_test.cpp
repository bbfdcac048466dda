#include "plugins/vllm/settings.hpp"

#include "plugins/vllm/schema.hpp"
#include "tests/unit/plugin_vllm/vectors.hpp"

using namespace sluice::vllm;

namespace {

struct Said {
    std::vector<std::string> refused, warned, effective;
};

Said check(std::string_view config) {
    Said said;
    sluice_verdict_out out{
        sizeof(sluice_verdict_out), 0, &said,
        [](void* ctx, sluice_status kind, sluice_str code, sluice_str field, sluice_str) {
            auto& list = kind == SLUICE_OK ? static_cast<Said*>(ctx)->warned
                                           : static_cast<Said*>(ctx)->refused;
            list.push_back(std::string(sluice::view(code)) + " " +
                           std::string(sluice::view(field)));
        },
        [](void* ctx, sluice_str field, sluice_str json) {
            static_cast<Said*>(ctx)->effective.push_back(std::string(sluice::view(field)) + "=" +
                                                         std::string(sluice::view(json)));
        }};
    sluice_proposal in{};
    in.size = sizeof in;
    in.config = sluice::borrow(config);
    sluice::Verdict verdict(&out);
    check_rule(in, verdict);
    return said;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_SUITE("vllm/settings") {
    TEST_CASE("a field that is not there declares nothing") {
        const Settings s = parse_settings("{}");
        CHECK_FALSE(s.zmq_port.has_value());
        CHECK_FALSE(s.replay_port.has_value());
        CHECK_FALSE(s.block_size.has_value());
        CHECK_FALSE(s.algorithm.has_value());
        CHECK_FALSE(s.seed.has_value());
        CHECK_FALSE(s.ranks.has_value());
        CHECK(s.discovery);
    }

    TEST_CASE("what is there is taken as written; port 0 is the default, replay port 0 is none") {
        const Settings s = parse_settings(
            R"({"kvZmqPort":0,"kvReplayPort":0,"kvBlockSize":32,"kvHashAlgo":"xxhash","kvHashSeed":"","kvDpRankCount":8,"kvDiscovery":"off"})");
        CHECK_FALSE(s.zmq_port.has_value());
        CHECK(s.replay_port == 0);
        CHECK(s.block_size == 32);
        CHECK(s.algorithm == Algorithm::Xxhash);
        CHECK(s.seed == "");
        CHECK(s.ranks == 8);
        CHECK_FALSE(s.discovery);
    }

    TEST_CASE(
        "the connector, the lease and the bootstrap port are the rule's, or the engine's usual") {
        const Settings usual = parse_settings("{}");
        CHECK(usual.connector == Connector::Nixl);
        CHECK(usual.lease_us == 0);
        CHECK(usual.bootstrap_port == 8998);
        const Settings said = parse_settings(
            R"({"pd_connector":"mooncake","kv_lease_duration":10,"mooncake_bootstrap_port":9001})");
        CHECK(said.connector == Connector::Mooncake);
        CHECK(said.lease_us == 10'000'000);
        CHECK(said.bootstrap_port == 9001);
        CHECK(parse_settings(R"({"pd_connector":"lmcache"})").connector == Connector::Lmcache);
    }

    TEST_CASE("a foreign algorithm or no object at all is a configuration error") {
        for (const char* config : {R"({"kvHashAlgo":"sha256_sglang"})",
                                   R"({"kvHashAlgo":"sha256_cbor_64bit"})", "[]", "{"}) {
            CAPTURE(config);
            CHECK_THROWS_AS(parse_settings(config), sluice::Failure);
        }
    }

    TEST_CASE("what a schema cannot say") {
        CHECK(check("{}").refused.empty());
        CHECK(check("{}").warned.empty());
        CHECK(check("{}").effective.empty());
        CHECK(check(R"({"kvZmqPort":65535,"kvDpRankCount":2,"kvReplayPort":0})").refused ==
              Words{"kv_port_range kvZmqPort"});
        CHECK(check(R"({"kvReplayPort":65535,"kvDpRankCount":2})").refused ==
              Words{"kv_port_range kvReplayPort"});
        CHECK(check(R"({"kvZmqPort":5557,"kvReplayPort":5560,"kvDpRankCount":4})").refused ==
              Words{"ports_collide kvReplayPort"});
        CHECK(check(R"({"kvZmqPort":5557,"kvReplayPort":5557})").refused ==
              Words{"ports_collide kvReplayPort"});
        CHECK(check(R"({"kvZmqPort":5557,"kvReplayPort":5561,"kvDpRankCount":4})").refused.empty());
        CHECK(check(R"({"kvZmqPort":65000})").warned ==
              Words{"kv_replay_unavailable kvReplayPort"});
        CHECK(check(R"({"kvHashAlgo":"sha256","kvHashSeed":"abc"})").warned ==
              Words{"kv_seed_unusual kvHashSeed"});
        CHECK(check(R"({"kvHashAlgo":"sha256","kvHashSeed":"4294967295"})").warned.empty());
        CHECK(check(R"({"kvHashAlgo":"sha256","kvHashSeed":"4294967296"})").warned ==
              Words{"kv_seed_unusual kvHashSeed"});
        CHECK(check(R"({"kvHashAlgo":"xxhash_cbor"})").warned ==
              Words{"kv_hash_unproven kvHashSeed"});
        CHECK(check(R"({"kvHashSeed":"0"})").warned == Words{"kv_hash_unproven kvHashAlgo"});
        CHECK(check(R"({"kvBlockSize":1})").warned == Words{"kv_block_size_small kvBlockSize"});
        CHECK(check(R"({"kvDiscovery":"off"})").effective == Words{"kvZmqPort=5557"});
    }

    TEST_CASE(
        "a gateway that publishes the events alone says where; ports and ranks do not count") {
        const Settings s = parse_settings(
            R"({"kvEventsFrom":"http://10.0.0.9:11111/","kvZmqPort":6000,"kvReplayPort":0,"kvDpRankCount":2,"kvDiscovery":"off","kvBlockSize":32})");
        CHECK(s.events_from == "http://10.0.0.9:11111");
        CHECK(s.events_host() == "10.0.0.9");
        CHECK_FALSE(s.zmq_port);
        CHECK_FALSE(s.replay_port);
        CHECK_FALSE(s.ranks);
        CHECK(s.discovery);
        CHECK(s.block_size == 32);
        CHECK(parse_settings(R"({"kvEventsFrom":"http://[fd00::9]:1/gw"})").events_host() ==
              "[fd00::9]");
        CHECK(parse_settings("{}").events_from.empty());
        CHECK_THROWS_AS(parse_settings(R"({"kvEventsFrom":"ftp://10.0.0.9:1"})"), sluice::Failure);
    }

    TEST_CASE("the schema is one line of JSON that names every field once") {
        CHECK(std::string_view(kConfigSchema).find('\n') == std::string_view::npos);
        simdjson::dom::parser parser;
        simdjson::dom::element schema;
        REQUIRE(parser.parse(std::string_view(kConfigSchema)).get(schema) == simdjson::SUCCESS);
        CHECK(simdjson::dom::object(schema["properties"]).size() == 11);
        CHECK(bool(schema["additionalProperties"]) == false);
    }
}
