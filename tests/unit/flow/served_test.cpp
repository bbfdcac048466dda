#include <doctest/doctest.h>

#include <atomic>

#include "core/flow/plugin_book.hpp"
#include "tests/unit/plugin/support.hpp"

using namespace sluice;
using plugin::testing::Fake;
using plugin::testing::Running;

namespace {

struct Heard {
    std::atomic<std::uint32_t> calls{0}, blocks{0}, cached{0}, flags{0};
};

Heard& heard() {
    static Heard one;
    return one;
}

void hear(sluice_instance*, sluice_attachment* at, const sluice_served* served) noexcept {
    if (at == nullptr) {
        return;
    }
    heard().blocks = served->prompt_blocks;
    heard().cached = served->cached_tokens;
    heard().flags = served->flags;
    ++heard().calls;
}

plugin::EndpointInfo endpoint() {
    plugin::EndpointInfo info;
    info.id = 1;
    info.base_url = "http://127.0.0.1:8001";
    info.address = "127.0.0.1";
    info.name = "127.0.0.1:8001";
    return info;
}

}  // namespace

TEST_SUITE("flow/served") {
    TEST_CASE("what traffic shows reaches the adapter of an endpoint that is attached") {
        heard().calls = 0;
        Fake fake;
        Running running;
        fake.has_engine = true;
        fake.engine_table.on_served = &hear;
        auto engine = running.active<plugin::EngineInstance>(fake);
        CHECK(flow::traits_of(*engine).hears_served);
        auto attached = engine->attach(endpoint(), SLUICE_WATCH_KV);
        REQUIRE(attached);
        REQUIRE((*attached)->wait(plugin::testing::kSoon));
        const auto adapter = flow::make_engine(engine, {*attached, nullptr}, {});
        sluice_served served{};
        served.size = sizeof served;
        served.flags = SLUICE_SERVED_REPEAT;
        served.prompt_blocks = 12;
        served.cached_tokens = 320;
        adapter->served(0, served);
        CHECK(heard().calls == 1);
        CHECK(heard().blocks == 12);
        CHECK(heard().cached == 320);
        CHECK(heard().flags == SLUICE_SERVED_REPEAT);
        adapter->served(1, served);  // nothing is attached there
        adapter->served(7, served);
        attached->reset();
        running.runtime.settle();
        adapter->served(0, served);  // an edit took it out
        CHECK(heard().calls == 1);
    }

    TEST_CASE("an adapter without interest is not asked, one of an older SDK neither") {
        Fake fake;
        Running running;
        fake.has_engine = true;
        auto engine = running.active<plugin::EngineInstance>(fake);
        CHECK_FALSE(flow::traits_of(*engine).hears_served);
        fake.engine_table.on_served = &hear;
        fake.engine_table.size = offsetof(sluice_engine, on_served);
        CHECK_FALSE(flow::traits_of(*engine).hears_served);
        heard().calls = 0;
        engine->on_served(nullptr, sluice_served{});
        CHECK(heard().calls == 0);
    }
}
