#include "core/flow/engine_events.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/metrics.hpp"

using namespace sluice;

namespace {

double value_of(const char* name, const metrics::Labels& labels = {}) {
    return metrics::registry().counter(name, "", labels).value();
}

// One endpoint that two rules name.
struct Setting {
    Setting() { give_routes(1); }
    void give_routes(std::uint32_t ranks) {
        flow::EngineRoutes routes;
        routes[1] = {endpoint, {first, second}, {}, ranks};
        events.set_routes(std::move(routes));
        first_member = first->member(1);
    }
    void facts(std::uint32_t ranks, std::uint32_t block_tokens = 0) {
        sluice_engine_facts facts{};
        facts.size = sizeof facts;
        facts.endpoint = 1;
        facts.num_dp_ranks = ranks;
        facts.block_tokens = block_tokens;
        events.facts(facts);
    }
    void report(std::uint32_t state, std::uint32_t why) {
        sluice_kv_report r{};
        r.size = sizeof r;
        r.dp_rank = SLUICE_ANY;
        r.endpoint = 1;
        r.state = state;
        r.why = why;
        events.report(r);
    }
    static std::size_t ranks_of(const route::KvPlane& plane) {
        std::set<std::uint32_t> ranks;
        for (const kv::HolderStats& holder : plane.index().stats()) {
            ranks.insert(holder.rank);
        }
        return ranks.size();
    }

    flow::EngineEvents events{[](const std::vector<fleet::Model>&) {
    }};
    fleet::EndpointPtr endpoint = std::make_shared<fleet::Endpoint>(1, "10.0.0.1", 8000);
    std::shared_ptr<route::KvPlane> first = std::make_shared<route::KvPlane>(kv::IndexOptions{});
    std::shared_ptr<route::KvPlane> second = std::make_shared<route::KvPlane>(kv::IndexOptions{});
    route::KvMemberPtr first_member;
};

}  // namespace

TEST_SUITE("flow/engine_events") {
    TEST_CASE("ranks that an engine shows are followed in every rule, and edits do not lose them") {
        Setting s;
        CHECK(Setting::ranks_of(*s.first) == 1);
        s.facts(4);
        CHECK(Setting::ranks_of(*s.first) == 4);
        CHECK(Setting::ranks_of(*s.second) == 4);
        s.facts(2);
        CHECK(Setting::ranks_of(*s.first) == 4);
        s.give_routes(1);
        CHECK(Setting::ranks_of(*s.first) == 4);
        s.give_routes(8);
        CHECK(Setting::ranks_of(*s.first) == 8);
        s.facts(3);
        CHECK(Setting::ranks_of(*s.first) == 8);  // an edit declared them
        s.facts(100'000);
        CHECK(Setting::ranks_of(*s.first) == flow::kMaxLearnedRanks);
    }

    TEST_CASE("a rule that comes late knows the engine's block size and its ranks") {
        Setting s;
        s.facts(2, 32);
        auto third = std::make_shared<route::KvPlane>(kv::IndexOptions{});
        third->declare(64);
        const route::KvMemberPtr member = third->member(1);
        flow::EngineRoutes routes;
        routes[1] = {s.endpoint, {s.first, third}, {}, 1};
        s.events.set_routes(std::move(routes));
        CHECK(member->foreign_block_tokens() == 32);
        CHECK(Setting::ranks_of(*third) == 2);
    }

    TEST_CASE("a second consumer is one fault and one heal, however many rules hear of it") {
        Setting s;
        constexpr const char* kFault = "loxilb_ai_kv_trtllm_drain_ownership_fault_total";
        constexpr const char* kHeal = "loxilb_ai_kv_trtllm_drain_ownership_heal_total";
        const metrics::Labels why{{"reason", "second_consumer"}};
        const double faults = value_of(kFault, why);
        const double heals = value_of(kHeal);
        s.report(SLUICE_KV_LIVE, SLUICE_WHY_NONE);
        CHECK(value_of(kHeal) == heals);
        s.report(SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR);
        s.report(SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR);
        s.report(SLUICE_KV_SAME, SLUICE_WHY_COMPETITOR);
        s.give_routes(1);
        CHECK(value_of(kFault, why) == faults + 1);
        s.report(SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP);
        CHECK(value_of(kHeal) == heals);
        s.report(SLUICE_KV_LIVE, SLUICE_WHY_NONE);
        s.report(SLUICE_KV_LIVE, SLUICE_WHY_NONE);
        CHECK(value_of(kHeal) == heals + 1);
        s.report(SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR);
        CHECK(value_of(kFault, why) == faults + 2);
    }

    TEST_CASE("an engine that is not admitted is counted by the reason") {
        Setting s;
        constexpr const char* kName = "loxilb_ai_kv_attest_probe_fail_total";
        const double sizes = value_of(kName, {{"reason", "block_size"}});
        const double silent = value_of(kName, {{"reason", "unreachable"}});
        s.report(SLUICE_KV_REFUSED, SLUICE_WHY_BLOCK_SIZE);
        s.report(SLUICE_KV_WAITING, SLUICE_WHY_UNREACHABLE);
        s.report(SLUICE_KV_LIVE, SLUICE_WHY_NONE);
        CHECK(value_of(kName, {{"reason", "block_size"}}) == sizes + 1);
        CHECK(value_of(kName, {{"reason", "unreachable"}}) == silent + 1);
    }

    TEST_CASE("the log says the signal as the read-back does, and warns when it is not fine") {
        Setting s;
        std::vector<std::pair<log::Level, std::string>> lines;
        log::set_sink(
            [&](log::Level level, const std::string& line) { lines.emplace_back(level, line); });
        struct Row {
            std::uint32_t state;
            std::uint32_t why;
            log::Level level;
            const char* signal;
        };
        const Row rows[] = {
            {SLUICE_KV_WAITING, SLUICE_WHY_NONE, log::Level::Info, "signal=warming"},
            {SLUICE_KV_WAITING, SLUICE_WHY_UNREACHABLE, log::Level::Warn, "signal=warming"},
            {SLUICE_KV_LIVE, SLUICE_WHY_LEGACY, log::Level::Info, "signal=ok"},
            {SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP, log::Level::Warn, "signal=doubtful"},
            {SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR, log::Level::Warn, "signal=stolen"},
            {SLUICE_KV_DEAD, SLUICE_WHY_EVENTS_OFF, log::Level::Warn, "signal=dead"},
            {SLUICE_KV_REFUSED, SLUICE_WHY_ALGORITHM, log::Level::Warn, "signal=refused"},
        };
        for (const Row& row : rows) {
            s.report(row.state, row.why);
        }
        log::set_sink({});
        REQUIRE(lines.size() == std::size(rows));
        for (std::size_t i = 0; i < lines.size(); ++i) {
            CAPTURE(lines[i].second);
            CHECK(lines[i].first == rows[i].level);
            CHECK(lines[i].second.find(rows[i].signal) != std::string::npos);
        }
    }
}
