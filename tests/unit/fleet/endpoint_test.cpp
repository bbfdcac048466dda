#include "core/fleet/endpoint.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <utility>

#include "core/fleet/pool.hpp"

using namespace sluice;

TEST_SUITE("fleet/endpoint") {
    TEST_CASE("names are what URLs need, IPv6 in brackets") {
        const fleet::Endpoint v4(1, "10.0.0.7", 8000);
        CHECK(v4.name() == "10.0.0.7:8000");
        const fleet::Endpoint v6(2, "fd00::7", 8000);
        CHECK(v6.base_url() == "http://[fd00::7]:8000");
    }

    TEST_CASE("load is summed over ranks and as old as the oldest of them") {
        fleet::Endpoint e(1, "10.0.0.7", 8000);
        CHECK(e.load().at_us == 0);
        e.set_load(0, {.running = 2,
                       .waiting = 1,
                       .max_running = 8,
                       .kv_used_ratio = 0.5F,
                       .total_blocks = 10,
                       .at_us = 100});
        e.set_load(1, {.running = 3,
                       .waiting = 0,
                       .max_running = 8,
                       .kv_used_ratio = 0.1F,
                       .total_blocks = 10,
                       .at_us = 50});
        const fleet::Load load = e.load();
        CHECK(load.running == 5);
        CHECK(load.waiting == 1);
        CHECK(load.max_running == 16);
        CHECK(load.kv_used_ratio == doctest::Approx(0.3));
        CHECK(load.total_blocks == 20);
        CHECK(load.at_us == 50);
        e.set_load(100'000, {.running = 9, .at_us = 60});  // no engine has that many ranks
        CHECK(e.load().running == 5);
        e.set_load(UINT32_MAX, {.running = 7, .at_us = 70});  // the endpoint as a whole
        e.set_load(1, {.running = 30, .at_us = 80});
        CHECK(e.load().running == 7);
    }

    TEST_CASE("another engine process is noticed by its epoch") {
        fleet::Endpoint e(1, "10.0.0.7", 8000);
        CHECK(e.set_facts(16, 7, "vLLM 0.32.0"));
        CHECK(!e.set_facts(0, 7, {}));
        CHECK(!e.set_facts(0, 0, {}));
        CHECK(e.set_facts(32, 8, {}));
        CHECK(e.block_tokens() == 32);
        CHECK(e.version() == "vLLM 0.32.0");
    }

    TEST_CASE("a lease is one unit, released once on every way out") {
        auto e = std::make_shared<fleet::Endpoint>(1, "10.0.0.7", 8000);
        {
            fleet::Lease a(e);
            CHECK(e->inflight() == 1);
            fleet::Lease b = std::move(a);
            CHECK(e->inflight() == 1);
            CHECK(!a.is_held());
            b = fleet::Lease(e);
            CHECK(e->inflight() == 1);
            b.release();
            b.release();
            CHECK(e->inflight() == 0);
            b = fleet::Lease(e);
        }
        CHECK(e->inflight() == 0);
    }
}

TEST_SUITE("fleet/pool") {
    TEST_CASE("why an endpoint may not be chosen") {
        auto endpoint = std::make_shared<fleet::Endpoint>(1, "10.0.0.7", 8000);
        rules::EndpointSpec spec;
        const fleet::Pool pool({{spec, endpoint, nullptr}});
        CHECK(pool.excluded(0, "m", 1) == fleet::Excluded::No);
        endpoint->set_models({{"other", {}, false}, {"lora", "other", true}});
        CHECK(pool.excluded(0, "m", 1) == fleet::Excluded::Model);
        CHECK(pool.excluded(0, "lora", 1) == fleet::Excluded::No);
        CHECK(pool.excluded(0, {}, 1) == fleet::Excluded::No);
        endpoint->set_health(fleet::Health::Busy, "full");
        CHECK(pool.excluded(0, "lora", 1) == fleet::Excluded::No);
        endpoint->set_health(fleet::Health::Asleep, "asleep");
        CHECK(pool.excluded(0, "lora", 1) == fleet::Excluded::Down);
        CHECK(pool.reason(0, 1) == "asleep");
        spec.weight = 0;
        const fleet::Pool drained({{spec, endpoint, nullptr}});
        CHECK(drained.excluded(0, {}, 1) == fleet::Excluded::Draining);
        CHECK(drained.reason(0, 1) == "weight 0");
    }
}

TEST_SUITE("fleet/pool") {
    TEST_CASE("an operator takes an endpoint out, whatever probes and the engine say") {
        auto endpoint = std::make_shared<fleet::Endpoint>(1, "10.0.0.7", 8000);
        const fleet::Pool pool({{rules::EndpointSpec{}, endpoint, nullptr}});
        CHECK(endpoint->changed_us() == 0);
        endpoint->set_host_state(rules::HostState::Yellow);
        CHECK(pool.excluded(0, {}, 1) == fleet::Excluded::Draining);
        CHECK(pool.reason(0, 1) == "host state yellow");
        const std::uint64_t changed = endpoint->changed_us();
        CHECK(changed > 0);
        endpoint->set_host_state(rules::HostState::Yellow);
        CHECK(endpoint->changed_us() == changed);
        endpoint->set_host_state(rules::HostState::Red);
        CHECK(pool.excluded(0, {}, 1) == fleet::Excluded::Disabled);
        CHECK(to_string(pool.excluded(0, {}, 1)) == "down");
        CHECK(pool.reason(0, 1) == "host state red");
        endpoint->set_health(fleet::Health::Down, "dead");
        CHECK(pool.excluded(0, {}, 1) == fleet::Excluded::Disabled);
        endpoint->set_host_state(rules::HostState::Green);
        CHECK(pool.excluded(0, {}, 1) == fleet::Excluded::Down);
        CHECK(pool.reason(0, 1) == "dead");
    }
}
