#include "core/flow/event_log.hpp"

#include <doctest/doctest.h>

using sluice::flow::EventLog;

TEST_SUITE("flow/event_log") {
    TEST_CASE("batches are numbered from 0 and read from any number on") {
        EventLog log;
        log.append("a");
        log.append("b");
        log.append("c");
        CHECK(log.next() == 3);
        const auto all = log.read(0, 10, 1 << 20);
        REQUIRE(all.size() == 3);
        CHECK(all[2].seq == 2);
        CHECK(*all[2].payload == "c");
        CHECK(log.read(2, 10, 1 << 20).size() == 1);
        CHECK(log.read(3, 10, 1 << 20).empty());
        CHECK(log.read(UINT64_MAX, 10, 1 << 20).empty());
        CHECK(log.read(0, 2, 1 << 20).size() == 2);
        // At least one, so that a reader always gets on.
        CHECK(log.read(0, 10, 1).size() == 1);
    }

    TEST_CASE("a burned number is a hole that nothing fills") {
        EventLog log;
        log.append("a");
        log.burn();
        log.append("b");
        const auto all = log.read(0, 10, 1 << 20);
        REQUIRE(all.size() == 2);
        CHECK(all[1].seq == 2);
        CHECK(log.read(1, 10, 1 << 20).front().seq == 2);
        CHECK(log.usage().burned == 1);
        CHECK(log.usage().published == 2);
    }

    TEST_CASE("the oldest batches go when there are too many, or too much") {
        EventLog few(3);
        for (int i = 0; i < 10; ++i) {
            few.append("x");
        }
        CHECK(few.usage().batches == 3);
        CHECK(few.usage().dropped == 7);
        CHECK(few.read(0, 10, 1 << 20).front().seq == 7);

        EventLog small(1000, 10'000);
        for (int i = 0; i < 100; ++i) {
            small.append(std::string(1000, 'x'));
            CHECK(small.usage().bytes <= 10'000);
        }
        CHECK(small.usage().batches == 10'000 / (1000 + EventLog::kBatchOverhead));
        // One that never fits is sent to nobody: its number is missing.
        small.append(std::string(20'000, 'x'));
        CHECK(small.usage().batches == 0);
        CHECK(small.usage().bytes == 0);
        CHECK(small.next() == 101);
    }

    TEST_CASE("what was read stays readable after it has left the log") {
        EventLog log(1);
        log.append("a");
        const auto held = log.read(0, 1, 1);
        log.append("b");
        CHECK(*held.front().payload == "a");
    }
}
