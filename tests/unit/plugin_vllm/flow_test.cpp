// Whole flows of one endpoint: discovery, replay, restarts, holes, refusals, detach.
#include "tests/unit/plugin_vllm/flow.hpp"

using namespace sluice::vllm;
using namespace sluice::vllm::test;

TEST_SUITE("vllm/flow") {
    TEST_CASE("a discovered engine is subscribed to, replayed from 0, then trusted") {
        Flow f;
        f.attach();
        CHECK(f.sub().topic == "kv");
        CHECK(f.sub().endpoint == 7);
        CHECK_FALSE(f.replaying());
        CHECK(f.state() == SLUICE_KV_WAITING);
        f.up();
        CHECK(f.asked_from() == 0);
        const Prompt a = prompt(1, 2), b = prompt(1000, 1);
        f.replay(0, batch_of({stored_event(a)}));
        f.replay(1, batch_of({stored_event(b)}));
        f.end_replay();
        CHECK_FALSE(f.replaying());
        CHECK(f.state() == SLUICE_KV_LIVE);
        f.live(2, batch_of({removed_event(b.hashes[0])}));
        CHECK(f.held() == std::map<std::uint64_t, int>{{a.hashes[0], 1}, {a.hashes[1], 1}});
    }

    TEST_CASE("an event reaches the host with its tokens, root and copies") {
        Flow f;
        f.attach_live();
        const Prompt p = prompt(5, 2, 16, Algorithm::Sha256, "0", "tenant");
        f.live(0, batch_of({stored_event(p)}));
        REQUIRE(f.host.reports("attested").size() == 1);
        CHECK(f.host.reports("attested")[0].detail == "sha256, key_form bare");
        const auto applied = std::find_if(f.host.kv.begin(), f.host.kv.end(), [](const KvSeen& k) {
            return k.what == KvSeen::What::Apply;
        });
        REQUIRE(applied != f.host.kv.end());
        CHECK(applied->endpoint == 7);
        CHECK(applied->seq == 0);
        REQUIRE(applied->events.size() == 1);
        CHECK(applied->events[0].tokens == p.tokens);
        CHECK(applied->events[0].hashes == p.hashes);
        CHECK(applied->events[0].salt == "tenant");
        CHECK(applied->events[0].flags == SLUICE_KV_COPIES);
        CHECK(applied->events[0].tier == SLUICE_TIER_GPU);
        CHECK(applied->events[0].block_tokens == 16);
    }

    TEST_CASE("facts are told before the first event, for they empty the inventory") {
        Flow f;
        f.host.hold("/metrics");
        f.attach();
        CHECK(f.host.sockets.empty());
        CHECK(f.host.facts.empty());
        f.host.answer("/metrics", {SLUICE_OK, 200, metrics(), {}});
        f.host.run();
        REQUIRE_FALSE(f.host.facts.empty());
        CHECK(f.host.facts.back().version == "vLLM 0.32.0");
        CHECK(f.host.facts.back().facts.block_tokens == 16);
        CHECK(f.host.facts.back().facts.num_dp_ranks == 1);
        CHECK(f.host.facts.back().facts.epoch != 0);
        CHECK(f.sub().is_open);
    }

    TEST_CASE("an engine without metrics is followed all the same") {
        Flow f;
        f.host.answer("/metrics", {SLUICE_E_TIMEOUT, 0, "", {}});
        f.host.answer("/version", {SLUICE_OK, 404, "", {}});
        f.attach();
        CHECK(f.sub().is_open);
    }

    TEST_CASE("events off is said at once and once, and noticed when it ends") {
        Flow f;
        f.host.answer("/kv_event_sources", {SLUICE_OK, 200, "{}", {}});
        f.attach();
        CHECK(f.host.sockets.empty());
        REQUIRE(f.host.reports("events_off").size() == 1);
        CHECK(f.host.reports("events_off")[0].state == SLUICE_KV_DEAD);
        CHECK(f.host.reports("events_off")[0].why == SLUICE_WHY_EVENTS_OFF);
        CHECK(f.host.reports("events_off")[0].dp_rank == SLUICE_ANY);
        CHECK_FALSE(f.host.reports("events_off")[0].advice.empty());
        f.host.advance(25'000'000);
        CHECK(f.host.reports("events_off").size() == 1);
        f.host.answer("/kv_event_sources", {SLUICE_OK, 200, sources(), {}});
        f.host.advance(11'000'000);
        f.up();
        f.end_replay();
        CHECK(f.state() == SLUICE_KV_LIVE);
    }

    TEST_CASE("events switched off by a restart empty the inventory") {
        Flow f;
        f.attach_live();
        f.live(0, batch_of({stored_event(prompt(1, 1))}));
        f.down();
        f.host.answer("/kv_event_sources", {SLUICE_OK, 200, "{}", {}});
        f.host.advance(11'000'000);
        CHECK(f.held().empty());
        CHECK(f.host.reports("events_off").size() == 1);
        CHECK(f.host.socket(SLUICE_ZMQ_SUB, kSub) == nullptr);
    }

    TEST_CASE("an engine before 0.31 is followed on the classic ports of each rank") {
        Flow f(R"({"kvDpRankCount":2})");
        f.host.answer("/kv_event_sources", {SLUICE_OK, 404, R"({"detail":"Not Found"})", {}});
        f.attach();
        CHECK(f.sub("tcp://127.0.0.1:5557").dp_rank == 0);
        CHECK(f.sub("tcp://127.0.0.1:5558").dp_rank == 1);
        f.host.link(f.sub("tcp://127.0.0.1:5558"), true);
        FakeSocket* dealer = f.host.socket(SLUICE_ZMQ_DEALER, "tcp://127.0.0.1:6558");
        REQUIRE(dealer != nullptr);
        // The short reply form of these versions.
        f.host.feed(*dealer, {"", frame(0), batch_of({stored_event(prompt(1, 1), false)})});
        f.host.feed(*dealer, {"", kEnd, ""});
        CHECK(f.held().size() == 1);
        CHECK(f.host.facts.back().facts.num_dp_ranks == 2);
    }

    TEST_CASE("discovery off asks nothing and uses the rule's ports") {
        Flow f(R"({"kvDiscovery":"off","kvZmqPort":6100,"kvReplayPort":0})");
        f.attach();
        CHECK(f.asked("/kv_event_sources") == 0);
        f.host.link(f.sub("tcp://127.0.0.1:6100"), true);
        CHECK(f.host.sockets.size() == 1);
        CHECK(f.state() == SLUICE_KV_LIVE);
        f.host.advance(30'000'000);
        CHECK(f.asked("/kv_event_sources") == 0);
    }

    TEST_CASE(
        "an API that does not answer is asked again with a growing pause, and reported once") {
        Flow f;
        f.host.answer("/kv_event_sources", {SLUICE_E_UNAVAILABLE, 0, "", {}});
        f.attach();
        f.host.advance(40'000'000);
        CHECK(f.host.reports("unreachable").size() == 1);
        CHECK(f.asked("/kv_event_sources") >= 4);
        CHECK(f.asked("/kv_event_sources") <= 9);
        f.host.answer("/kv_event_sources", {SLUICE_OK, 200, sources(), {}});
        f.host.advance(11'000'000);
        CHECK(f.sub().is_open);
    }

    TEST_CASE("events of another gateway: only it is asked for them, the engine for the rest") {
        const std::string url =
            "http://127.0.0.1:11111/netlox/v1/kv_event_sources?endpoint=127.0.0.1:8000";
        Flow f(R"({"kvEventsFrom":"http://127.0.0.1:11111","kvZmqPort":6000})");
        f.host.answer(url, {SLUICE_OK, 200, sources("\"tcp://*:15502\"", "tcp://*:15501"), {}});
        f.attach();
        CHECK(f.asked("/kv_event_sources") == 0);
        CHECK(f.asked(url) == 1);
        CHECK(f.asked("/metrics") == 1);
        f.up();
        f.end_replay();
        CHECK(f.state() == SLUICE_KV_LIVE);
        f.live(0, batch_of({stored_event(prompt(1, 2))}));
        CHECK(f.held().size() == 2);
        // It is asked again while all is well: a gateway learns of ranks as it goes.
        f.host.advance(11'000'000);
        CHECK(f.asked(url) >= 2);
        CHECK(f.held().size() == 2);
    }

    TEST_CASE("who only reads another gateway's events asks the engine nothing") {
        const std::string url =
            "http://127.0.0.1:11111/netlox/v1/kv_event_sources?endpoint=127.0.0.1:8000";
        Flow f(R"({"kvEventsFrom":"http://127.0.0.1:11111"})");
        f.host.answer(url, {SLUICE_OK, 200, sources(), {}});
        f.attach(SLUICE_WATCH_KV);
        f.up();
        f.end_replay();
        f.down();
        f.host.advance(30'000'000);
        f.up();
        for (const char* path : {"/metrics", "/version", "/v1/models", "/kv_event_sources"}) {
            CHECK(f.asked(path) == 0);
        }
        CHECK(f.asked(url) >= 2);
    }

    TEST_CASE("a gateway that does not publish the endpoint is not taken for an old engine") {
        const std::string url =
            "http://127.0.0.1:11111/netlox/v1/kv_event_sources?endpoint=127.0.0.1:8000";
        for (const std::uint32_t code : {200U, 404U}) {
            Flow f(R"({"kvEventsFrom":"http://127.0.0.1:11111"})");
            f.host.answer(url, {SLUICE_OK, code, "{}", {}});
            f.attach(SLUICE_WATCH_KV);
            CHECK(f.host.sockets.empty());
            REQUIRE(f.host.reports("events_off").size() == 1);
            CHECK(f.host.reports("events_off")[0].state == SLUICE_KV_DEAD);
            CHECK_FALSE(f.host.reports("events_off")[0].advice.empty());
            f.host.answer(url, {SLUICE_OK, 200, sources(), {}});
            f.host.advance(11'000'000);
            CHECK(f.sub().is_open);
        }
        Flow f(R"({"kvEventsFrom":"http://127.0.0.1:11111"})");
        f.host.answer(url, {SLUICE_E_UNAVAILABLE, 0, "", {}});
        f.attach(SLUICE_WATCH_KV);
        f.host.advance(5'000'000);
        CHECK(f.host.reports("unreachable").size() == 1);
    }

    TEST_CASE("an answer that is no source list leaves the classic ports") {
        Flow f;
        f.host.answer("/kv_event_sources", {SLUICE_OK, 200, "[1,2]", {}});
        f.attach();
        CHECK(f.sub("tcp://127.0.0.1:5557").is_open);
        CHECK(f.counted(SLUICE_WHY_MALFORMED) == 1);
    }

    TEST_CASE("a gap is filled from the replay socket while live batches wait") {
        Flow f;
        f.attach_live();
        const Prompt a = prompt(1, 1), b = prompt(100, 1), c = prompt(200, 1), d = prompt(300, 1);
        f.live(0, batch_of({stored_event(a)}));
        f.live(2, batch_of({removed_event(a.hashes[0])}));
        CHECK(f.asked_from() == 1);
        CHECK(f.state() == SLUICE_KV_UNPROVEN);
        f.live(3, batch_of({stored_event(d)}));
        CHECK(f.held() == std::map<std::uint64_t, int>{{a.hashes[0], 1}});
        f.replay(1, batch_of({stored_event(b), stored_event(c)}));
        f.replay(2, batch_of({removed_event(a.hashes[0])}));
        f.end_replay();
        CHECK(f.held() ==
              std::map<std::uint64_t, int>{{b.hashes[0], 1}, {c.hashes[0], 1}, {d.hashes[0], 1}});
        CHECK(f.state() == SLUICE_KV_LIVE);
    }

    TEST_CASE("a hole that no replay fills is counted and leaves the older blocks in doubt") {
        Flow f;
        f.attach_live();
        const Prompt a = prompt(1, 1), b = prompt(100, 1);
        f.live(0, batch_of({stored_event(a)}));
        f.live(2, batch_of({stored_event(b)}));
        f.replay(2, batch_of({stored_event(b)}));
        f.end_replay();
        CHECK_FALSE(f.replaying());
        CHECK(f.state() == SLUICE_KV_UNPROVEN);
        CHECK(f.counted(SLUICE_WHY_GAP) == 1);
        // The last UNPROVEN comes before the block that is good: it stands between the two.
        const KvSeen& last = f.host.kv.back();
        REQUIRE(last.what == KvSeen::What::Apply);
        CHECK(last.seq == 2);
        const KvSeen& before = f.host.kv[f.host.kv.size() - 2];
        CHECK(before.state == SLUICE_KV_UNPROVEN);
        CHECK(before.reason == "gap");
        f.live(3, batch_of({cleared_event()}));
        CHECK(f.state() == SLUICE_KV_LIVE);
    }

    TEST_CASE("batches a large replay lost are asked for again on a new socket") {
        Flow f;
        f.attach();
        f.up();
        f.replay(0, batch_of({stored_event(prompt(1, 1))}));
        f.replay(2, batch_of({stored_event(prompt(200, 1))}));
        f.end_replay();
        CHECK(f.asked_from() == 1);
        f.replay(1, batch_of({stored_event(prompt(100, 1))}));
        f.end_replay();
        CHECK(f.held().size() == 3);
        CHECK(f.state() == SLUICE_KV_LIVE);
    }

    TEST_CASE("a replay that loses its end marker is over after a silence") {
        Flow f;
        f.attach();
        f.up();
        f.replay(0, batch_of({stored_event(prompt(1, 1))}));
        f.host.advance(1'500'000);
        CHECK(f.replaying());
        f.host.advance(1'000'000);
        CHECK_FALSE(f.replaying());
        CHECK(f.state() == SLUICE_KV_LIVE);
    }

    TEST_CASE("a replay socket that does not answer is named, and the stream goes on") {
        Flow f;
        f.attach();
        f.up();
        f.live(9, batch_of({stored_event(prompt(1, 1))}));
        f.host.advance(3'000'000);
        CHECK_FALSE(f.replaying());
        CHECK(f.host.reports("replay_off").size() == 1);
        CHECK(f.held().size() == 1);
        CHECK(f.state() == SLUICE_KV_LIVE);
        CHECK(f.counted(SLUICE_WHY_LATE_JOIN) == 1);
    }

    TEST_CASE("a full send queue is tried again") {
        Flow f;
        f.attach();
        f.host.link(f.sub(), true);
        FakeSocket& dealer = f.dealer();
        CHECK(dealer.sent.size() == 1);
        dealer.send_answer = SLUICE_AGAIN;
        f.live(5, batch_of({stored_event(prompt(1, 1))}));
        f.end_replay();  // nothing came: the hole is skipped
        CHECK(f.held().size() == 1);
    }

    TEST_CASE("without a replay socket a late join is told with its remedy") {
        Flow f;
        f.host.answer("/kv_event_sources", {SLUICE_OK, 200, sources("null"), {}});
        f.attach();
        f.up();
        CHECK(f.state() == SLUICE_KV_LIVE);
        f.live(41, batch_of({stored_event(prompt(1, 1))}));
        const auto said = f.host.reports("replay_off");
        REQUIRE(said.size() == 1);
        CHECK(said[0].state == SLUICE_KV_LIVE);
        CHECK(said[0].why == SLUICE_WHY_LATE_JOIN);
        CHECK_FALSE(said[0].advice.empty());
        f.live(43, batch_of({stored_event(prompt(100, 1))}));
        CHECK(f.host.reports("replay_off").size() == 2);
        CHECK(f.state() == SLUICE_KV_UNPROVEN);
        CHECK(f.held().size() == 2);
    }

    TEST_CASE(
        "a killed and restarted engine on the same address: its old blocks go, its new ones come") {
        Flow f;
        f.attach_live();
        const Prompt before = prompt(1, 2), after = prompt(500, 1);
        f.live(0, batch_of({stored_event(before)}));
        f.down();
        CHECK(f.state() == SLUICE_KV_UNPROVEN);
        f.up();
        CHECK(f.asked_from() == 0);
        f.replay(0, batch_of({stored_event(after)}, 1'900'000'000));
        CHECK(f.asked_from() == 1);  // asked again, for what the new engine sent since
        f.end_replay();
        CHECK(f.held() == std::map<std::uint64_t, int>{{after.hashes[0], 1}});
        CHECK(f.state() == SLUICE_KV_LIVE);
    }

    TEST_CASE("a short loss of the connection keeps the blocks once the same process is proven") {
        Flow f;
        f.attach_live();
        const Prompt a = prompt(1, 1), b = prompt(100, 1);
        f.live(0, batch_of({stored_event(a)}));
        f.down();
        f.up();
        f.replay(0, batch_of({stored_event(a)}));
        f.replay(1, batch_of({stored_event(b)}));
        f.end_replay();
        CHECK(f.held().size() == 2);
        CHECK(f.state() == SLUICE_KV_LIVE);
    }

    TEST_CASE("after a reconnect the engine is asked again where it publishes") {
        Flow f;
        f.attach_live();
        const std::size_t before = f.asked("/kv_event_sources");
        f.down();
        f.host.answer("/kv_event_sources", {SLUICE_OK, 200, sources("null", "tcp://*:15700"), {}});
        f.up();
        f.host.advance(3'000'000);
        CHECK(f.asked("/kv_event_sources") > before);
        CHECK(f.host.socket(SLUICE_ZMQ_SUB, kSub) == nullptr);
        CHECK(f.sub("tcp://127.0.0.1:15700").is_open);
    }

    TEST_CASE("another epoch in the metrics restarts the streams, after the host was told") {
        Flow f;
        f.attach_live();
        const Prompt a = prompt(1, 1);
        f.live(0, batch_of({stored_event(a)}));
        const std::size_t told = f.host.facts.size();
        f.host.answer("/metrics", {SLUICE_OK, 200, metrics("2.0e+09"), {}});
        f.host.advance(1'500'000);
        REQUIRE(f.host.facts.size() == told + 1);
        CHECK(f.held().empty());
        CHECK(f.asked_from() == 0);
        f.replay(0, batch_of({stored_event(a)}));
        f.end_replay();
        CHECK(f.held().size() == 1);
        CHECK(f.state() == SLUICE_KV_LIVE);
    }
}
