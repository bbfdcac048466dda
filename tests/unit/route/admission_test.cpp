#include "core/route/admission.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

using namespace sluice;

namespace {

constexpr std::uint64_t kEndpoint = 7;

struct Line {
    Line(std::uint32_t max, std::uint32_t depth) { at->set_limits({max, depth}); }
    const std::shared_ptr<route::Admission> at = std::make_shared<route::Admission>();
};

// Waits for a place and notes the order in which places came.
net::Task<void> stand(net::Loop& loop, std::shared_ptr<route::Admission> at, int name,
                      std::vector<int>& order) {
    route::Waiter waiter(loop, at, kEndpoint);
    REQUIRE(waiter.park());
    const Status granted = co_await waiter.granted({});
    REQUIRE(granted);
    route::Slot slot = waiter.take();
    REQUIRE(slot.is_held());
    order.push_back(name);
}

}  // namespace

TEST_SUITE("route/admission") {
    TEST_CASE("an endpoint takes as many as it may, others any number") {
        Line line(2, 0);
        auto a = line.at->try_take(kEndpoint);
        auto b = line.at->try_take(kEndpoint);
        CHECK(a.is_held());
        CHECK(b.is_held());
        CHECK(line.at->is_full(kEndpoint));
        CHECK_FALSE(line.at->try_take(kEndpoint).is_held());
        CHECK(line.at->try_take(8).is_held());
        a.release();
        a.release();
        CHECK(line.at->held(kEndpoint) == 1);
        CHECK(line.at->try_take(kEndpoint).is_held());
    }

    TEST_CASE("those who wait come in the order they came in, and nobody overtakes") {
        Line line(1, 8);
        const auto loop = net::Loop::create().value();
        std::vector<int> order;
        auto first = line.at->try_take(kEndpoint);
        for (int i = 0; i < 4; ++i) {
            loop->spawn(stand(*loop, line.at, i, order));
        }
        CHECK(line.at->queued(kEndpoint) == 4);
        first.release();
        CHECK_FALSE(line.at->try_take(kEndpoint).is_held());
        auto finish = [](net::Loop& l) -> net::Task<bool> {
            for (int i = 0; i < 50 && l.spawned() > 1; ++i) {
                const Status turn = co_await l.sleep_until(l.after(std::chrono::milliseconds(1)));
                (void)turn;
            }
            co_return true;
        };
        CHECK(net::run_task(*loop, finish(*loop)));
        CHECK(order == std::vector<int>{0, 1, 2, 3});
        CHECK(line.at->held(kEndpoint) == 0);
        CHECK(line.at->queued(kEndpoint) == 0);
    }

    TEST_CASE("a full queue turns away, and one that leaves makes room") {
        Line line(1, 1);
        const auto loop = net::Loop::create().value();
        auto held = line.at->try_take(kEndpoint);
        {
            route::Waiter in(*loop, line.at, kEndpoint);
            CHECK(in.park());
            route::Waiter out(*loop, line.at, kEndpoint);
            CHECK_FALSE(out.park());
        }
        CHECK(line.at->queued(kEndpoint) == 0);
        route::Waiter again(*loop, line.at, kEndpoint);
        CHECK(again.park());
    }

    TEST_CASE("a place that was handed to somebody who left goes to the next") {
        Line line(1, 2);
        const auto loop = net::Loop::create().value();
        auto held = line.at->try_take(kEndpoint);
        auto leaves = std::make_unique<route::Waiter>(*loop, line.at, kEndpoint);
        route::Waiter stays(*loop, line.at, kEndpoint);
        REQUIRE(leaves->park());
        REQUIRE(stays.park());
        held.release();
        leaves.reset();
        CHECK(stays.take().is_held());
        CHECK(line.at->held(kEndpoint) == 0);
    }

    TEST_CASE("a wider limit lets in at once, an endpoint that goes sends away") {
        Line line(1, 4);
        const auto loop = net::Loop::create().value();
        auto held = line.at->try_take(kEndpoint);
        route::Waiter a(*loop, line.at, kEndpoint);
        route::Waiter b(*loop, line.at, kEndpoint);
        REQUIRE(a.park());
        REQUIRE(b.park());
        line.at->set_limits({2, 4});
        auto granted = a.take();
        CHECK(granted.is_held());
        line.at->retain([](std::uint64_t id) { return id != kEndpoint; });
        CHECK_FALSE(b.take().is_held());
        CHECK(line.at->queued(kEndpoint) == 0);
        CHECK(line.at->held(kEndpoint) == 2);
    }

    TEST_CASE("places come back from other threads") {
        Line line(1, 64);
        const auto loop = net::Loop::create().value();
        std::vector<int> order;
        for (int round = 0; round < 20; ++round) {
            auto held = std::make_unique<route::Slot>(line.at->try_take(kEndpoint));
            REQUIRE(held->is_held());
            auto job = [](net::Loop& l, std::shared_ptr<route::Admission> at,
                          std::vector<int>& names) -> net::Task<bool> {
                co_await stand(l, at, 1, names);
                co_return true;
            };
            std::jthread other;
            auto start = [&](net::Loop&) {
                other = std::jthread([&] { held.reset(); });
            };
            loop->post([&] { start(*loop); });
            CHECK(net::run_task(*loop, job(*loop, line.at, order)));
        }
        CHECK(order.size() == 20);
        CHECK(line.at->held(kEndpoint) == 0);
    }
}
