#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/base/metrics.hpp"
#include "core/base/random.hpp"
#include "core/base/result.hpp"
#include "core/base/snapshot.hpp"
#include "core/base/thread_pool.hpp"

using namespace sluice;

TEST_SUITE("base/result") {
    TEST_CASE("a result is a value or an error with context in front") {
        Result<int> good = 4;
        REQUIRE(good);
        CHECK(*good == 4);
        Result<std::unique_ptr<int>> bad = Error{Code::Limit, "too many"}.at("rule 7");
        REQUIRE(!bad);
        CHECK(bad.error().what == "rule 7: too many");
        CHECK(bad.error().code == Code::Limit);
        const Status ok;
        CHECK(ok.ok());
    }
}

TEST_SUITE("base/snapshot") {
    TEST_CASE("a reader keeps the version it took") {
        Snapshot<std::string> s(std::make_shared<const std::string>("a"));
        const auto before = s.get();
        const auto replaced = s.set(std::make_shared<const std::string>("b"));
        CHECK(*before == "a");
        CHECK(replaced == before);
        CHECK(*s.get() == "b");
    }
}

TEST_SUITE("base/log") {
    TEST_CASE("fields are quoted where they must be, floods are held back and counted") {
        std::vector<std::string> lines;
        log::set_sink([&](log::Level, const std::string& line) { lines.push_back(line); });
        log::warn("two words", {{"plain", "x"}, {"odd", "a \"b\"\n"}, {"n", 7}, {"yes", true}});
        REQUIRE(lines.size() == 1);
        CHECK(lines[0] == "\"two words\" plain=x odd=\"a \\\"b\\\"\\x0a\" n=7 yes=true");
        lines.clear();
        for (int i = 0; i < 100; ++i) {
            log::warn("flood");
        }
        CHECK(lines.size() == 20);
        log::debug("not enabled");
        CHECK(lines.size() == 20);
        log::set_sink({});
        CHECK(log::level_from("warn") == log::Level::Warn);
        CHECK(!log::level_from("loud"));
    }
}

TEST_SUITE("base/metrics") {
    TEST_CASE("children are kept apart by labels, and bounded") {
        metrics::Registry registry;
        registry.counter("a_total", "help", {{"x", "1"}}).add(2);
        registry.counter("a_total", "help", {{"x", "1"}}).add();
        registry.gauge("g", "help").set(4);
        registry.histogram("h_seconds", "help", {1, 2}).observe(1.5);
        for (std::size_t i = 0; i < metrics::Registry::kMaxChildren + 50; ++i) {
            registry.counter("wild_total", "help", {{"who", std::to_string(i)}}).add();
        }
        for (const metrics::Family& family : registry.collect()) {
            if (family.name == "a_total") {
                CHECK(family.samples.at(0).value == 3);
            } else if (family.name == "h_seconds") {
                CHECK(family.samples.at(0).buckets == std::vector<std::uint64_t>{0, 1, 0});
                CHECK(family.samples.at(0).sum == 1.5);
            } else if (family.name == "wild_total") {
                CHECK(family.samples.size() == metrics::Registry::kMaxChildren + 1);
                double total = 0;
                for (const metrics::Sample& sample : family.samples) {
                    total += sample.value;
                }
                CHECK(total == metrics::Registry::kMaxChildren + 50);
            }
        }
        const auto id = registry.add_source([](std::vector<metrics::Family>& out) {
            out.push_back({"late", "help", metrics::Kind::Gauge, {}});
        });
        CHECK(registry.collect().back().name == "late");
        registry.remove_source(id);
        CHECK(registry.collect().back().name != "late");
    }
}

TEST_SUITE("base/thread_pool") {
    TEST_CASE("queued jobs run, a full or stopped pool refuses") {
        std::atomic<int> ran{0};
        std::promise<void> gate;
        auto open = gate.get_future().share();
        ThreadPool pool("test", 1, 2);
        std::promise<void> started;
        REQUIRE(pool.post([&] {
            started.set_value();
            open.wait();
            ++ran;
        }));
        started.get_future().wait();
        REQUIRE(pool.post([&] { ++ran; }));
        REQUIRE(pool.post([&] { ++ran; }));
        CHECK(!pool.post([&] { ++ran; }));
        gate.set_value();
        pool.stop();
        CHECK(ran == 3);
        CHECK(!pool.post([] {}));
    }
}

TEST_SUITE("base/values") {
    TEST_CASE("identifiers have their form, integers their byte order") {
        CHECK(random_hex_id().size() == 32);
        CHECK(random_hex_id() != random_hex_id());
        const std::string uuid = random_uuid();
        CHECK(uuid.size() == 36);
        CHECK(uuid[14] == '4');
        std::uint8_t bytes[8];
        store_be64(0x0102030405060708ULL, bytes);
        CHECK(bytes[0] == 1);
        CHECK(load_be64(bytes) == 0x0102030405060708ULL);
        const std::uint64_t before = now_us();
        CHECK(before <= now_us());
        CHECK(wall_us() > 1'600'000'000'000'000ULL);
    }
}
