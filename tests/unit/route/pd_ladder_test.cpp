// The ladder of a P/D rule: the same tiers, once a leg.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/route/ladder.hpp"

using namespace sluice;
using route::Tier;

namespace {

constexpr std::uint64_t kSecond = 1'000'000;

// Endpoints with these roles, ids from 1.
struct Pairs {
    explicit Pairs(const std::vector<std::uint32_t>& roles, rules::PdSpec pd = {}) {
        pd.is_on = true;
        auto rule = std::make_shared<rules::Rule>();
        rule->pd = pd;
        auto names = std::make_shared<route::Names>();
        std::vector<fleet::Member> members;
        for (std::size_t i = 0; i < roles.size(); ++i) {
            rules::EndpointSpec spec;
            spec.ip = "10.0.0." + std::to_string(i + 1);
            spec.port = 8000;
            spec.role = roles[i];
            members.push_back(
                {spec, std::make_shared<fleet::Endpoint>(i + 1, spec.ip, 8000), nullptr});
            names->endpoints.push_back(members.back().endpoint->name());
        }
        service.rule = rule;
        service.names = names;
        service.pool = std::make_shared<const fleet::Pool>(std::move(members));
        service.pd = std::make_shared<route::PdState>();
        service.pd->admission->set_limits({pd.max_inflight, pd.queue_depth});
        facts.api = route::Api::Completions;
    }
    route::Decision choose(std::uint32_t role, std::uint64_t session = 0,
                           const route::Chain* chain = nullptr) {
        return ladder.choose({.service = service,
                              .facts = facts,
                              .served_model = "m",
                              .prompt = nullptr,
                              .tried = tried,
                              .request_id = "r",
                              .client = {},
                              .is_dry_run = is_dry_run,
                              .now_us = now_us(),
                              .role = role,
                              .session = session,
                              .chain = chain},
                             receipt);
    }
    route::Decision prefill(std::uint64_t session = 0, const route::Chain* chain = nullptr) {
        return choose(rules::kRolePrefill, session, chain);
    }
    route::Decision decode(std::uint64_t session = 0) {
        return choose(rules::kRoleDecode, session);
    }
    fleet::Endpoint& endpoint(std::size_t i) { return *(*service.pool)[i].endpoint; }
    fleet::Lease busy(std::size_t i) const { return fleet::Lease((*service.pool)[i].endpoint); }
    // Waiting requests as the engine said `age_us` ago.
    void waiting(std::size_t i, std::uint32_t requests, std::uint64_t age_us = 0) {
        fleet::Load load;
        load.waiting = requests;
        load.at_us = now_us() - age_us;
        endpoint(i).set_load(UINT32_MAX, load);
    }

    route::Service service;
    route::Facts facts;
    route::Ladder ladder;
    route::Receipt receipt;
    std::vector<std::size_t> tried;
    bool is_dry_run = false;
};

route::Chain chain_of(const std::string& text) {
    route::Chain out;
    out.assign(1, text);
    return out;
}

}  // namespace

TEST_SUITE("route/pd_ladder") {
    TEST_CASE("a leg goes to an endpoint of its role") {
        Pairs p({0, 2, 1});
        CHECK(p.prefill().index == 2);
        CHECK(p.decode().index == 1);
        CHECK(p.choose(rules::kRoleWhole).index == 0);
        p.tried = {2};
        CHECK_FALSE(p.prefill().is_found);
        CHECK_FALSE(p.prefill().to_wait_for);
        std::size_t prefills = 0;
        for (const route::CandidateRecord& c : p.receipt.candidates) {
            prefills += c.leg == route::LegKind::Prefill ? 1U : 0U;
        }
        CHECK(prefills == 1);
        CHECK(p.receipt.candidates.size() == 3);
    }

    TEST_CASE("fewest requests win, here or waiting there; equals take turns") {
        Pairs p({1, 1, 1, 2});
        const auto a = p.busy(0);
        const std::size_t first = p.prefill().index;
        const std::size_t second = p.prefill().index;
        CHECK(first != 0);
        CHECK(second != 0);
        CHECK(first != second);
        p.waiting(1, 5);
        p.waiting(2, 0);
        p.waiting(0, 0);
        CHECK(p.prefill().index == 2);
        CHECK(p.prefill().tier == Tier::Selector);
    }

    TEST_CASE("a stale word of an engine is replaced by the mean of the others") {
        Pairs p({1, 1, 1, 2});
        p.waiting(0, 0, 31 * kSecond);  // counts as two, the mean of the others
        p.waiting(1, 1);
        p.waiting(2, 3);
        CHECK(p.prefill().index == 1);
        p.waiting(0, 0, 29 * kSecond);
        CHECK(p.prefill().index == 0);
    }

    TEST_CASE("a session keeps its pair, and is forgotten with an endpoint that is out") {
        Pairs p({1, 1, 2, 2});
        p.service.pd->sessions.learn(7, {2, 4}, now_us());
        const auto other = p.busy(1);
        const auto prefill = p.prefill(7);
        CHECK(prefill.index == 1);
        CHECK(prefill.tier == Tier::Session);
        CHECK(p.decode(7).index == 3);
        CHECK(p.prefill(8).tier == Tier::Selector);
        p.endpoint(1).set_health(fleet::Health::Down, "gone");
        p.is_dry_run = true;
        CHECK(p.prefill(7).index == 0);
        CHECK(p.service.pd->sessions.size() == 1);
        p.is_dry_run = false;
        CHECK(p.prefill(7).tier == Tier::Selector);
        CHECK(p.service.pd->sessions.size() == 0);
    }

    TEST_CASE("a prompt goes where its beginning went, while that is enough of it") {
        rules::PdSpec pd;
        pd.cache_threshold = 50;
        Pairs p({1, 1, 2}, pd);
        const std::string known(640, 'k');
        p.service.pd->prefixes.learn(chain_of(known), 2);
        const auto most = chain_of(known + std::string(320, 'x'));
        const auto little = chain_of(known + std::string(1280, 'x'));
        CHECK(p.prefill(0, &most).index == 1);
        CHECK(p.prefill(0, &most).tier == Tier::Prefix);
        p.receipt.reset();
        CHECK(p.prefill(0, &little).tier == Tier::Selector);
        CHECK(p.receipt.misses.back().reason == "shallow");
    }

    TEST_CASE("affinity gives way to imbalance") {
        rules::PdSpec pd;
        pd.balance_threshold = 1;
        Pairs p({1, 1, 2}, pd);
        const auto known = chain_of(std::string(640, 'k'));
        p.service.pd->prefixes.learn(known, 2);
        const auto one = p.busy(1);
        CHECK(p.prefill(0, &known).index == 1);
        const auto two = p.busy(1);
        CHECK(p.prefill(0, &known).index == 0);
        CHECK(p.prefill(0, &known).tier == Tier::Selector);
    }

    TEST_CASE("a full endpoint is passed over, and only when all are full one is waited for") {
        rules::PdSpec pd;
        pd.max_inflight = 1;
        pd.queue_depth = 4;
        Pairs p({1, 1, 2}, pd);
        auto& admission = *p.service.pd->admission;
        auto a = admission.try_take(1);
        CHECK(p.prefill().index == 1);
        auto b = admission.try_take(2);
        const auto loop = net::Loop::create().value();
        route::Waiter waiter(*loop, p.service.pd->admission, 1);
        REQUIRE(waiter.park());
        const auto full = p.prefill();
        CHECK_FALSE(full.is_found);
        CHECK(full.to_wait_for == 1);  // the shorter queue
        p.endpoint(0).set_health(fleet::Health::Down, "gone");
        p.endpoint(1).set_health(fleet::Health::Down, "gone");
        CHECK_FALSE(p.prefill().to_wait_for);
    }

    TEST_CASE("an endpoint is full by the limit in force, whatever the rule said when asked") {
        Pairs p({1, 1, 2});
        auto& admission = *p.service.pd->admission;
        const auto one = admission.try_take(1);
        const auto two = admission.try_take(2);
        CHECK(p.prefill().is_found);
        admission.set_limits({1, 4});  // an edit that this request has not seen
        const auto full = p.prefill();
        CHECK_FALSE(full.is_found);
        CHECK(full.to_wait_for);
    }
}
