#include "plugins/vllm/discovery.hpp"

#include <doctest/doctest.h>

using namespace sluice::vllm;

namespace {

std::string source(const char* rank, const char* endpoint, const char* replay,
                   const char* topic = "kv") {
    return std::string("\"") + rank +
           R"(":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":")" + endpoint +
           R"(","replay_endpoint":)" +
           (replay == nullptr ? "null" : "\"" + std::string(replay) + "\"") +
           R"(,"buffer_steps":10000,"hwm":100000,"max_queue_size":100000,"topic":")" + topic +
           "\"}";
}

}  // namespace

TEST_SUITE("vllm/discovery") {
    TEST_CASE("the answer of a running 0.32 with two ranks, in its order") {
        const auto sources = parse_sources(
            "{" + source("1", "tcp://[::ffff:127.0.0.1]:15581", "tcp://127.0.0.1:15591") + "," +
            source("0", "tcp://[::ffff:127.0.0.1]:15580", "tcp://127.0.0.1:15590") + "}");
        REQUIRE(sources.has_value());
        const auto feeds = feeds_of(*sources, "127.0.0.1", {});
        REQUIRE(feeds.size() == 2);
        CHECK(feeds[0] ==
              Feed{0, "tcp://127.0.0.1:15580", "tcp://127.0.0.1:15590", "kv", false, false, ""});
        CHECK(feeds[1] ==
              Feed{1, "tcp://127.0.0.1:15581", "tcp://127.0.0.1:15591", "kv", false, false, ""});
    }

    TEST_CASE("an empty object is events off, anything undocumented is refused") {
        REQUIRE(parse_sources("{}").has_value());
        CHECK(parse_sources("{}")->empty());
        for (const char* body :
             {"", "[]", "null", "{", R"({"0":1})", R"({"x":{"endpoint":"tcp://*:1"}})",
              R"({"0":{"topic":"kv"}})", R"({"64":{"endpoint":"tcp://*:1"}})",
              R"({"-1":{"endpoint":"tcp://*:1"}})", R"({"0":{"endpoint":7}})",
              R"({"0":{"endpoint":"tcp://*:1"},"00":{"endpoint":"tcp://*:2"}})"}) {
            CAPTURE(body);
            CHECK_FALSE(parse_sources(body).has_value());
        }
        CHECK(parse_sources(R"({"0":{"enable_kv_cache_events":false,"endpoint":"tcp://*:1"}})")
                  ->empty());
        CHECK(parse_sources(R"({"0":{"publisher":"null","endpoint":"tcp://*:1"}})")->empty());
    }

    TEST_CASE(
        "whatever host the engine names, its own address is reached, with the port from the "
        "answer") {
        struct Row {
            const char* endpoint;
            const char* own;
            const char* want;
            bool may_connect_out;
        };
        for (const Row& row :
             {Row{"tcp://*:5557", "10.0.0.7", "tcp://10.0.0.7:5557", false},
              Row{"tcp://[::]:5557", "10.0.0.7", "tcp://10.0.0.7:5557", false},
              Row{"tcp://[::ffff:127.0.0.1]:15581", "10.0.0.7", "tcp://10.0.0.7:15581", false},
              Row{"tcp://0.0.0.0:5557", "10.0.0.7", "tcp://10.0.0.7:5557", true},
              Row{"tcp://localhost:5557", "10.0.0.7", "tcp://10.0.0.7:5557", true},
              Row{"tcp://127.0.0.1:5557", "127.0.0.1", "tcp://127.0.0.1:5557", true},
              Row{"tcp://10.0.0.7:34149", "10.0.0.7", "tcp://10.0.0.7:34149", true},
              Row{"tcp://evil.example:34149", "10.0.0.7", "tcp://10.0.0.7:34149", true},
              Row{"tcp://*:5557", "[fd00::7]", "tcp://[fd00::7]:5557", false},
              Row{"ipc:///run/kv", "127.0.0.1", "ipc:///run/kv", false},
              Row{"ipc:///run/kv", "10.0.0.7", "", false},
              Row{"inproc://kv", "127.0.0.1", "", true}, Row{"tcp://*:0", "10.0.0.7", "", false},
              Row{"tcp://*:99999", "10.0.0.7", "", false}, Row{"tcp://*", "10.0.0.7", "", false},
              Row{"", "10.0.0.7", "", true}}) {
            CAPTURE(row.endpoint);
            const auto sources = parse_sources("{" + source("0", row.endpoint, nullptr) + "}");
            REQUIRE(sources.has_value());
            const auto feeds = feeds_of(*sources, row.own, {});
            REQUIRE(feeds.size() == 1);
            CHECK(feeds[0].address == row.want);
            CHECK(feeds[0].may_connect_out == row.may_connect_out);
            CHECK(feeds[0].trouble.empty() == !feeds[0].address.empty());
            CHECK(feeds[0].replay.empty());
        }
    }

    TEST_CASE(
        "a given port is used as it is, the topic and the replay address still come from the "
        "engine") {
        Settings s;
        s.zmq_port = 6000;
        const auto feeds = feeds_of(
            *parse_sources("{" + source("1", "tcp://*:5558", "tcp://*:7558", "kv@pod") + "}"),
            "10.0.0.7", s);
        REQUIRE(feeds.size() == 1);
        CHECK(feeds[0] ==
              Feed{1, "tcp://10.0.0.7:6001", "tcp://10.0.0.7:7558", "kv@pod", false, false, ""});
        s.replay_port = 0;
        CHECK(feeds_of(*parse_sources("{" + source("1", "tcp://*:5558", "tcp://*:7558") + "}"),
                       "10.0.0.7", s)[0]
                  .replay.empty());
        s.ranks = 1;
        CHECK(feeds_of(*parse_sources("{" + source("1", "tcp://*:5558", "tcp://*:7558") + "}"),
                       "10.0.0.7", s)
                  .empty());
    }

    TEST_CASE("an older engine is followed on port + rank, its replay a thousand higher") {
        Settings s;
        auto feeds = classic_feeds("10.0.0.7", 2, s);
        REQUIRE(feeds.size() == 2);
        CHECK(feeds[1] ==
              Feed{1, "tcp://10.0.0.7:5558", "tcp://10.0.0.7:6558", "", false, false, ""});
        s.zmq_port = 65000;
        feeds = classic_feeds("10.0.0.7", 1, s);
        CHECK(feeds[0].replay.empty());
        s.replay_port = 65001;
        feeds = classic_feeds("10.0.0.7", 2, s);
        CHECK(feeds[0].ports_collide);
        CHECK_FALSE(feeds[1].ports_collide);
    }

    TEST_CASE("a replay port that is another rank's publisher is noticed") {
        const auto feeds =
            feeds_of(*parse_sources("{" + source("0", "tcp://*:5557", "tcp://*:5558") + "," +
                                    source("1", "tcp://*:5558", "tcp://*:5559") + "}"),
                     "10.0.0.7", {});
        CHECK(feeds[0].ports_collide);
        CHECK_FALSE(feeds[1].ports_collide);
    }
}
