#include "core/net/timer_wheel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/net/buffer.hpp"

using namespace sluice::net;

namespace {

constexpr std::uint64_t kTick = 1024;

struct Probe final : Timer {
    void expired() noexcept override {
        fired_us = *now_us;
        ++count;
        if (again != nullptr) {
            again->arm(*this, fired_us + 5 * kTick);
            again = nullptr;
        }
        if (drops != nullptr) {
            drops->drop_self();
        }
    }
    void drop_self() noexcept { wheel->drop(*this); }
    const std::uint64_t* now_us = nullptr;
    std::uint64_t deadline_us = 0;
    std::uint64_t fired_us = 0;
    int count = 0;
    TimerWheel* wheel = nullptr;
    TimerWheel* again = nullptr;
    Probe* drops = nullptr;
};

}  // namespace

TEST_SUITE("net/timer_wheel") {
    TEST_CASE("timers of every distance fire once, not early and at most a tick late") {
        for (const std::uint64_t start :
             {std::uint64_t{0}, std::uint64_t{12'345'678}, (std::uint64_t{1} << 46U) - 3000}) {
            CAPTURE(start);
            std::uint64_t now = start;
            TimerWheel wheel(now);
            std::vector<std::unique_ptr<Probe>> probes;
            for (std::uint64_t d = 1; d < 200'000'000'000; d = d * 5 / 3 + 1) {
                auto probe = std::make_unique<Probe>();
                probe->now_us = &now;
                probe->deadline_us = now + d;
                wheel.arm(*probe, probe->deadline_us);
                probes.push_back(std::move(probe));
            }
            CHECK(wheel.size() == probes.size());
            int turns = 0;
            while (wheel.next_us() != kNever) {
                REQUIRE(++turns < 10'000);
                now = std::max(now + 1, wheel.next_us());
                wheel.advance(now);
            }
            for (const auto& probe : probes) {
                CAPTURE(probe->deadline_us);
                CHECK(probe->count == 1);
                CHECK(probe->fired_us >= probe->deadline_us);
                CHECK(probe->fired_us < probe->deadline_us + kTick + 2);
            }
        }
    }

    TEST_CASE("a long jump fires everything that is due") {
        std::uint64_t now = 0;
        TimerWheel wheel(now);
        std::vector<std::unique_ptr<Probe>> probes;
        for (std::uint64_t i = 0; i < 5000; ++i) {
            auto probe = std::make_unique<Probe>();
            probe->now_us = &now;
            wheel.arm(*probe, i * 777);
            probes.push_back(std::move(probe));
        }
        now = 2'000'000;
        wheel.advance(now);
        for (std::uint64_t i = 0; i < probes.size(); ++i) {
            const std::uint64_t tick_end = (i * 777 + kTick - 1) / kTick * kTick;
            CHECK(probes[i]->count == (tick_end <= now / kTick * kTick ? 1 : 0));
        }
    }

    TEST_CASE("a dropped or re-armed timer does not fire at its old time") {
        std::uint64_t now = 0;
        TimerWheel wheel(now);
        Probe dropped;
        Probe moved;
        dropped.now_us = moved.now_us = &now;
        wheel.arm(dropped, 10 * kTick);
        wheel.arm(moved, 10 * kTick);
        wheel.arm(moved, 90 * kTick);
        wheel.drop(dropped);
        now = 50 * kTick;
        wheel.advance(now);
        CHECK(dropped.count == 0);
        CHECK(moved.count == 0);
        {
            Probe short_lived;
            wheel.arm(short_lived, now + kTick);
        }
        CHECK(wheel.size() == 1);
        now = 90 * kTick;
        wheel.advance(now);
        CHECK(moved.count == 1);
        CHECK(wheel.next_us() == kNever);
    }

    TEST_CASE("an expiring timer may re-arm itself and drop another that is due") {
        std::uint64_t now = 0;
        TimerWheel wheel(now);
        Probe self;
        Probe first;
        Probe second;
        self.now_us = first.now_us = second.now_us = &now;
        first.wheel = second.wheel = &wheel;
        self.again = &wheel;
        first.drops = &second;
        second.drops = &first;
        wheel.arm(self, kTick);
        wheel.arm(first, kTick);
        wheel.arm(second, kTick);
        now = kTick;
        wheel.advance(now);
        CHECK(self.count == 1);
        CHECK(first.count + second.count == 1);  // whoever came first dropped the other
        now = 6 * kTick;
        wheel.advance(now);
        CHECK(self.count == 2);
    }

    TEST_CASE("a deadline of never arms nothing") {
        TimerWheel wheel(0);
        Probe probe;
        wheel.arm(probe, kNever);
        CHECK_FALSE(probe.is_armed());
        CHECK(wheel.next_us() == kNever);
    }
}

TEST_SUITE("net/buffer") {
    TEST_CASE("a buffer keeps its bytes as it grows, through every kind of memory") {
        BufferPool pool;
        Buffer buffer = pool.take(1);
        CHECK(buffer.capacity() == kSmallBufferBytes);
        std::size_t written = 0;
        for (const std::size_t size : {std::size_t{8192}, std::size_t{20000}, std::size_t{131072},
                                       std::size_t{131073}, std::size_t{2000000}}) {
            buffer.grow(size);
            REQUIRE(buffer.capacity() >= size);
            for (; written < size; ++written) {
                buffer.data()[written] = static_cast<char>(written * 31);
            }
            buffer.resize(size);
            // The slack belongs to the buffer.
            std::fill_n(buffer.data() + buffer.capacity(), kSlackBytes, 'x');
        }
        bool same = true;
        for (std::size_t i = 0; i < written; ++i) {
            same = same && buffer.data()[i] == static_cast<char>(i * 31);
        }
        CHECK(same);
        CHECK(pool.lent_bytes() == buffer.capacity());
        buffer.release();
        CHECK(pool.lent_bytes() == 0);
        CHECK_FALSE(buffer);
    }

    TEST_CASE("consuming moves the rest to the front") {
        BufferPool pool;
        Buffer buffer = pool.take(100);
        std::copy_n("abcdef", 6, buffer.data());
        buffer.resize(6);
        buffer.consume(2);
        CHECK(buffer.view() == "cdef");
        buffer.consume(4);
        CHECK(buffer.size() == 0);
    }

    TEST_CASE("the pool keeps a bounded amount") {
        BufferPool pool;
        {
            std::vector<Buffer> many;
            for (std::size_t i = 0; i < kMaxKeptBufferBytes / kLargeBufferBytes + 50; ++i) {
                many.push_back(pool.take(kLargeBufferBytes));
            }
        }
        CHECK(pool.kept_bytes() <= kMaxKeptBufferBytes);
        CHECK(pool.lent_bytes() == 0);
    }
}
