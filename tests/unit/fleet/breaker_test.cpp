#include "core/fleet/breaker.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

using namespace sluice;
using fleet::Breaker;
using fleet::BreakerState;
using fleet::Permit;

namespace {

constexpr std::uint64_t kOpenUs = 30'000'000;

rules::BreakerSpec numbers(std::uint32_t failures = 5) {
    return {.is_on = true, .failures = failures};
}

struct Bench {
    explicit Bench(const rules::BreakerSpec& spec = numbers()) : breaker("r", "e", spec) {}

    void fail(int times) {
        for (int i = 0; i < times; ++i) {
            breaker.enter(now).failed("gone", now);
        }
    }
    void answer(bool is_whole = true) {
        Permit permit = breaker.enter(now);
        permit.answered();
        if (is_whole) {
            permit.completed();
        }
    }
    BreakerState state() const { return breaker.state(now); }

    std::uint64_t now = 1'000'000;
    Breaker breaker;
};

}  // namespace

TEST_SUITE("fleet/breaker") {
    TEST_CASE("failures in a row open it, and an answer between them ends the row") {
        Bench b;
        b.fail(4);
        CHECK(b.state() == BreakerState::Closed);
        b.answer();
        b.fail(4);
        CHECK(b.state() == BreakerState::Closed);
        b.fail(1);
        CHECK(b.state() == BreakerState::Open);
        CHECK(!b.breaker.admits(b.now));
        CHECK(!b.breaker.enter(b.now).is_held());
        CHECK(b.breaker.open_for_us(b.now) == kOpenUs);
    }

    TEST_CASE("answers that always break off open it although each begins well") {
        Bench b;
        for (int i = 0; i < 5; ++i) {
            CHECK(b.state() == BreakerState::Closed);
            Permit permit = b.breaker.enter(b.now);
            permit.answered();
            permit.failed("cut", b.now);
        }
        CHECK(b.state() == BreakerState::Open);
    }

    TEST_CASE("5xx in a row open it; other answers, 4xx among them, end the row") {
        Bench b;
        for (const bool is_answered : {true, false}) {
            b.breaker.enter(b.now).origin_error(b.now);
            b.breaker.enter(b.now).origin_error(b.now);
            CHECK(b.state() == BreakerState::Closed);
            if (is_answered) {
                b.answer();
            }
        }
        b.breaker.enter(b.now).origin_error(b.now);
        CHECK(b.state() == BreakerState::Open);

        rules::BreakerSpec spec = numbers();
        spec.origin_5xx = 0;
        Bench deaf(spec);
        for (int i = 0; i < 100; ++i) {
            deaf.breaker.enter(deaf.now).origin_error(deaf.now);
        }
        CHECK(deaf.state() == BreakerState::Closed);
    }

    TEST_CASE("a permit that goes away without a word says nothing") {
        Bench b(numbers(1));
        for (int i = 0; i < 100; ++i) {
            const Permit permit = b.breaker.enter(b.now);
            CHECK(permit.is_held());
        }
        CHECK(b.state() == BreakerState::Closed);
    }

    TEST_CASE("half open lets exactly so many try at a time, and the first success closes it") {
        Bench b(numbers(1));
        b.fail(1);
        b.now += kOpenUs - 1;
        CHECK(!b.breaker.enter(b.now).is_held());
        b.now += 1;
        CHECK(b.state() == BreakerState::HalfOpen);
        Permit first = b.breaker.enter(b.now);
        Permit second = b.breaker.enter(b.now);
        Permit third = b.breaker.enter(b.now);
        CHECK(third.is_held());
        CHECK(!b.breaker.admits(b.now));
        CHECK(!b.breaker.enter(b.now).is_held());
        second.release();  // its client left
        second.release();
        second = b.breaker.enter(b.now);
        CHECK(second.is_held());
        CHECK(!b.breaker.enter(b.now).is_held());
        first.answered();
        CHECK(b.state() == BreakerState::Closed);
        // What the other trials meet belongs to the time before.
        third.failed("late", b.now);
        CHECK(b.state() == BreakerState::Closed);
        first.failed("it broke off all the same", b.now);
        CHECK(b.state() == BreakerState::Open);
    }

    TEST_CASE("a failure while half open opens it for as long again") {
        Bench b(numbers(3));
        b.fail(3);
        b.now += kOpenUs;
        Permit trial = b.breaker.enter(b.now);
        Permit other = b.breaker.enter(b.now);
        trial.failed("again", b.now);
        CHECK(b.state() == BreakerState::Open);
        other.answered();
        CHECK(b.state() == BreakerState::Open);
        b.now += kOpenUs - 1;
        CHECK(b.state() == BreakerState::Open);
        b.now += 1;
        CHECK(b.state() == BreakerState::HalfOpen);
        b.breaker.enter(b.now).origin_error(b.now);
        CHECK(b.state() == BreakerState::Open);
    }

    TEST_CASE("time alone makes it half open, once") {
        Bench b(numbers(1));
        b.fail(1);
        b.breaker.heal(b.now);
        CHECK(b.state() == BreakerState::Open);
        b.now += kOpenUs;
        b.breaker.heal(b.now);
        const Permit trial = b.breaker.enter(b.now);
        b.breaker.heal(b.now);
        CHECK(trial.is_held());
        CHECK(b.state() == BreakerState::HalfOpen);
    }

    TEST_CASE("an edit of its numbers keeps what it knows") {
        Bench b;
        b.fail(4);
        rules::BreakerSpec spec = numbers(5);
        spec.open_ms = 1000;
        b.breaker.configure(spec);
        b.fail(1);
        CHECK(b.state() == BreakerState::Open);
        b.now += 1'000'000;
        CHECK(b.state() == BreakerState::HalfOpen);
    }

    TEST_CASE("many threads never hold more trials than there are, and none is lost") {
        rules::BreakerSpec spec = numbers(1);
        spec.open_ms = 1;
        spec.half_open_trials = 2;
        Breaker breaker("r", "e", spec);
        std::atomic<std::uint64_t> clock{1'000'000};
        breaker.enter(clock).failed("gone", clock);
        clock += 1000;
        breaker.heal(clock);
        std::atomic<int> out{0};
        std::atomic<int> most{0};
        std::atomic<int> taken{0};
        std::vector<std::jthread> threads;
        for (int t = 0; t < 8; ++t) {
            threads.emplace_back([&] {
                for (int i = 0; i < 5000; ++i) {
                    Permit permit = breaker.enter(clock);
                    if (!permit.is_held()) {
                        continue;
                    }
                    const int now_out = ++out;
                    int seen = most;
                    while (seen < now_out && !most.compare_exchange_weak(seen, now_out)) {
                    }
                    ++taken;
                    --out;
                }
            });
        }
        threads.clear();
        CHECK(most <= 2);
        CHECK(taken > 0);
        const Permit one = breaker.enter(clock);
        const Permit two = breaker.enter(clock);
        CHECK(two.is_held());
        CHECK(!breaker.enter(clock).is_held());
    }

    TEST_CASE("threads that fail and succeed at once leave it in a state of the three") {
        rules::BreakerSpec spec = numbers(2);
        spec.open_ms = 1;
        Breaker breaker("r", "e", spec);
        std::atomic<std::uint64_t> clock{1'000'000};
        std::vector<std::jthread> threads;
        for (int t = 0; t < 8; ++t) {
            threads.emplace_back([&, t] {
                for (int i = 0; i < 3000; ++i) {
                    const std::uint64_t now = clock += 100;
                    Permit permit = breaker.enter(now);
                    switch ((i + t) % 4) {
                        case 0:
                            permit.failed("x", now);
                            break;
                        case 1:
                            permit.answered();
                            permit.completed();
                            break;
                        case 2:
                            permit.origin_error(now);
                            break;
                        default:
                            break;
                    }
                }
            });
        }
        threads.clear();
        // Whatever they left, it heals: no trial is missing.
        std::uint64_t now = clock += 10'000;
        breaker.enter(now).failed("x", now);
        breaker.enter(now).failed("x", now);
        now += 10'000;
        breaker.heal(now);
        for (int i = 0; i < 3; ++i) {
            Permit permit = breaker.enter(now);
            CHECK(permit.is_held());
            permit.answered();
        }
        CHECK(breaker.state(now) == BreakerState::Closed);
    }
}
