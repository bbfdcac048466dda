#include "core/route/gate.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

using namespace sluice;
using route::Gate;
using route::Ticket;

namespace {

std::string_view code_of(const std::optional<route::Refusal>& refusal) {
    return refusal ? refusal->code : std::string_view("entered");
}

Gate gate_for(const rules::Rule& rule) {
    Gate out;
    out.is_restricted = !rule.allowed_sources.empty();
    out.sources = route::read_sources(rule.allowed_sources);
    return out;
}

}  // namespace

TEST_SUITE("route/gate") {
    TEST_CASE("a rule takes so many requests at a time, and one more when one ends") {
        rules::Rule rule;
        rule.connection_limit = 2;
        const Gate gate = gate_for(rule);
        Ticket a, b, c;
        CHECK(code_of(gate.enter(rule, "127.0.0.1:1", a)) == "entered");
        CHECK(code_of(gate.enter(rule, "127.0.0.1:2", b)) == "entered");
        const auto refusal = gate.enter(rule, "127.0.0.1:3", c);
        CHECK(code_of(refusal) == "connection_limit");
        CHECK(refusal->status == 503);
        CHECK_FALSE(c.is_held());
        CHECK(gate.occupancy->held() == 2);
        a.release();
        a.release();  // once only
        CHECK(gate.occupancy->held() == 1);
        CHECK(code_of(gate.enter(rule, "127.0.0.1:3", c)) == "entered");
        {
            const Ticket moved = std::move(c);
            CHECK(gate.occupancy->held() == 2);
        }
        CHECK(gate.occupancy->held() == 1);
    }

    TEST_CASE("what runs already counts when a limit is set on a live rule") {
        rules::Rule rule;
        const Gate before = gate_for(rule);
        Ticket a, b, c;
        CHECK(code_of(before.enter(rule, "127.0.0.1:1", a)) == "entered");
        CHECK(code_of(before.enter(rule, "127.0.0.1:1", b)) == "entered");
        rule.connection_limit = 2;
        Gate after = gate_for(rule);
        after.occupancy = before.occupancy;
        CHECK(code_of(after.enter(rule, "127.0.0.1:1", c)) == "connection_limit");
        b.release();
        CHECK(code_of(after.enter(rule, "127.0.0.1:1", c)) == "entered");
    }

    TEST_CASE("many threads never hold more than the limit, and leave nothing behind") {
        rules::Rule rule;
        rule.connection_limit = 3;
        const Gate gate = gate_for(rule);
        std::atomic<int> inside{0};
        std::atomic<int> most{0};
        std::atomic<int> entered{0};
        {
            std::vector<std::jthread> threads;
            for (int t = 0; t < 4; ++t) {
                threads.emplace_back([&] {
                    for (int i = 0; i < 2000; ++i) {
                        Ticket place;
                        if (gate.enter(rule, "127.0.0.1:1", place)) {
                            continue;
                        }
                        const int now = inside.fetch_add(1) + 1;
                        int seen = most.load();
                        while (seen < now && !most.compare_exchange_weak(seen, now)) {
                        }
                        entered.fetch_add(1);
                        inside.fetch_sub(1);
                    }
                });
            }
        }
        CHECK(most.load() <= 3);
        CHECK(entered.load() > 0);
        CHECK(gate.occupancy->held() == 0);
    }

    TEST_CASE("who is not among the sources is turned away before anything else") {
        rules::Rule rule;
        rule.allowed_sources = {"10.0.0.0/8", "fd00::/8"};
        rule.is_admin_up = false;
        const Gate gate = gate_for(rule);
        Ticket place;
        for (const char* peer : {"11.0.0.1:5", "[fc00::1]:5", "[::1]:5", "nonsense", ""}) {
            CAPTURE(peer);
            const auto refusal = gate.enter(rule, peer, place);
            CHECK(code_of(refusal) == "source_not_allowed");
            CHECK(refusal->status == 403);
        }
        for (const char* peer : {"10.1.2.3:5", "[fd00::7]:5", "[::ffff:10.1.2.3]:5"}) {
            CAPTURE(peer);
            const auto refusal = gate.enter(rule, peer, place);
            CHECK(code_of(refusal) == "rule_disabled");
            CHECK(refusal->status == 503);
        }
        CHECK(gate.occupancy->held() == 0);
    }

    TEST_CASE("a text that is no network admits nobody") {
        rules::Rule rule;
        rule.allowed_sources = {"everybody"};
        const Gate gate = gate_for(rule);
        Ticket place;
        CHECK(code_of(gate.enter(rule, "10.1.2.3:5", place)) == "source_not_allowed");
    }
}
