#include "core/fleet/silence.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace sluice;

namespace {

struct Bench {
    Bench() {
        const auto any = net::Address::parse("127.0.0.1:0").value();
        listener = net::Listener::open(*loop, any).value();
    }
    bool is_gone(fleet::Silence& silence) {
        return silence.is_gone(*loop, listener.local(), endpoint);
    }
    // Until every look has ended.
    void settle() {
        loop->spawn(until_idle());
        loop->run();
    }
    net::Task<void> until_idle() {
        while (loop->spawned() > 1) {
            (void)co_await loop->sleep_until(loop->after(std::chrono::milliseconds(1)));
        }
        loop->stop();
    }

    std::unique_ptr<net::Loop> loop = net::Loop::create().value();
    net::Listener listener;
    fleet::EndpointPtr endpoint = std::make_shared<fleet::Endpoint>(1, "127.0.0.1", 1);
};

}  // namespace

TEST_SUITE("fleet/silence") {
    TEST_CASE("however many wait, one of them looks") {
        Bench b;
        std::vector<fleet::Silence> waiting(300);
        const std::uint64_t now = b.loop->now_us();
        for (fleet::Silence& one : waiting) {
            one.begin(now, net::kNever);
            CHECK(!b.is_gone(one));
        }
        CHECK(b.loop->spawned() == 1);
        b.settle();
        for (fleet::Silence& one : waiting) {
            CHECK(!b.is_gone(one));
        }
        CHECK(b.loop->spawned() == 0);  // it is not time for another
        CHECK(b.endpoint->mark(now) == fleet::Mark::None);
    }

    TEST_CASE("a look ends those who were silent before it, not who heard something since") {
        Bench b;
        const std::uint64_t now = b.loop->now_us();
        b.endpoint->port_look().refused_us = now;
        fleet::Silence before;
        before.begin(now - 1, net::kNever);
        fleet::Silence after;
        after.begin(now, net::kNever);
        CHECK(b.is_gone(before));
        CHECK(!b.is_gone(after));
        b.settle();
    }

    TEST_CASE("a limit that is nearer than the patience is the deadline") {
        fleet::Silence silence;
        silence.begin(1000, 5000);
        CHECK(silence.deadline_us() == 5000);
        CHECK(!silence.is_over(4999));
        CHECK(silence.is_over(5000));
        silence.begin(1000, net::kNever);
        CHECK(silence.deadline_us() == 1000 + 1'500'000);
    }
}
