#include "core/rules/defaults.hpp"

#include <doctest/doctest.h>

#include "core/rules/parse.hpp"
#include "tests/unit/rules/bodies.hpp"

TEST_SUITE_BEGIN("rules/defaults");

using namespace sluice;
using namespace sluice::rules;

namespace {

Result<Defaults> from(const std::map<std::string, std::string>& environment,
                      const std::map<std::string, std::string>& config = {}) {
    return Defaults::from(
        [&environment](std::string_view name) -> std::optional<std::string> {
            const auto it = environment.find(std::string(name));
            return it == environment.end() ? std::nullopt : std::optional(it->second);
        },
        config);
}

Rule rule_with(const Defaults& defaults, test::Members service = {}) {
    Parsed parsed = parse_rule(test::body(service), defaults, {{"vllm"}, {"rr", "lc"}});
    REQUIRE_FALSE(parsed.refusal.has_value());
    return parsed.rule;
}

}  // namespace

TEST_CASE("the environment beats the configuration file, a rule beats both") {
    auto defaults = from({{"LLB_KV_MIN_MATCH_TOKENS", "64"}, {"LOXILB_KV_LB_MODE", "off"}},
                         {{"kvMinMatchTokens", "32"},
                          {"kvMeanLoadFactor", "300"},
                          {"timeouts.connect_ms", "500"},
                          {"retry.not_accepted", "false"}});
    REQUIRE_MESSAGE(defaults.ok(), defaults.error().what);
    const Rule rule = rule_with(*defaults);
    CHECK(rule.kv.min_match_tokens == 64);
    CHECK(rule.kv.lb_mode == KvSpec::LbMode::Off);
    CHECK(rule.kv.mean_load_factor == 300);
    CHECK(rule.timeouts.connect_ms == 500);
    CHECK(rule.timeouts.header_ms == 10'000);
    CHECK_FALSE(rule.retry.not_accepted);
    CHECK(rule_with(*defaults, {{"kvMinMatchTokens", "1"}}).kv.min_match_tokens == 1);
    CHECK(rule_with(*defaults, {{"timeouts", R"({"connect_ms":9})"}}).timeouts.connect_ms == 9);
}

TEST_CASE("every variable sets its field") {
    auto defaults = from({{"LOXILB_KV_MEAN_LOAD_FACTOR", "101"},
                          {"LOXILB_KV_COLDSTART_SEED_N", "1"},
                          {"LOXILB_KV_COLDSTART_MIN_BLOCKS", "2"},
                          {"LOXILB_KV_MAX_BLOCKS", "1001"},
                          {"LOXILB_KV_UNIFIED_MODE", "0"},
                          {"LLB_KV_REPLAY_PORT_OFFSET", "10"}});
    REQUIRE(defaults.ok());
    const Rule rule = rule_with(*defaults);
    CHECK(rule.kv.mean_load_factor == 101);
    CHECK(rule.kv.cold_seed_every == 1);
    CHECK(rule.kv.cold_seed_min_blocks == 2);
    CHECK(rule.kv.max_blocks == 1001);
    CHECK(rule.kv.lb_mode == KvSpec::LbMode::Off);
    CHECK(rule.kv.replay_port == 5567);
    CHECK(rule_with(*from({{"LLB_KV_REPLAY_PORT_OFFSET", "0"}})).kv.replay_port == 0);
}

TEST_CASE("a value the field would refuse stops the start and names its source") {
    struct Row {
        std::map<std::string, std::string> environment, config;
        std::string named;
    };
    for (const Row& row :
         {Row{{{"LLB_KV_MIN_MATCH_TOKENS", "many"}}, {}, "LLB_KV_MIN_MATCH_TOKENS"},
          Row{{{"LLB_KV_MIN_MATCH_TOKENS", "5000"}}, {}, "LLB_KV_MIN_MATCH_TOKENS"},
          Row{{{"LOXILB_KV_LB_MODE", "soft"}}, {}, "LOXILB_KV_LB_MODE"},
          Row{{{"LLB_KV_REPLAY_PORT_OFFSET", "-1"}}, {}, "REPLAY_PORT_OFFSET"},
          Row{{}, {{"kvMaxBlocks", "1"}}, "[rules] kvMaxBlocks"},
          Row{{}, {{"retry.not_accepted", "yes"}}, "[rules] retry.not_accepted"},
          Row{{}, {{"externalIP", "::1"}}, "[rules] externalIP"},
          Row{{}, {{"kvmaxblocks", "2000"}}, "[rules] kvmaxblocks"}}) {
        CAPTURE(row.named);
        auto defaults = from(row.environment, row.config);
        REQUIRE_FALSE(defaults.ok());
        CHECK(defaults.error().what.find(row.named) != std::string::npos);
    }
}

TEST_CASE("what is allowed is said once") {
    const auto range = from({}, {{"kvMaxBlocks", "1"}});
    REQUIRE_FALSE(range.ok());
    CHECK(range.error().what == "[rules] kvMaxBlocks is 1, allowed is 1000..100000000");
    const auto word = from({}, {{"kvLbMode", "best"}});
    REQUIRE_FALSE(word.ok());
    CHECK(word.error().what ==
          "[rules] kvLbMode is \"best\", which is unknown; there are off, hard, soft, adaptive or "
          "adaptive-soft; allowed: off or hard");
}

TEST_CASE("an empty variable says nothing") {
    auto defaults = from({{"LLB_KV_MIN_MATCH_TOKENS", ""}});
    REQUIRE(defaults.ok());
    CHECK(rule_with(*defaults).kv.min_match_tokens == 16);
}

TEST_SUITE_END();
