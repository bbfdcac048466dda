// Drains, one at a time; what a lost one, a hole and a restart mean; who else drains.
#include "tests/unit/plugin_trtllm/flow.hpp"

using namespace sluice;
using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

TEST_SUITE("trtllm/feed") {
    TEST_CASE("blocks come and go, and the last tokens of an answer match nothing") {
        Flow f;
        f.attach();
        CHECK(f.word().state == SLUICE_KV_LIVE);
        const Prompt p = prompt(1, 80);
        f.events({event(0, created()), event(1, stored(p))});
        CHECK(f.held() == std::set<std::uint64_t>{p.hashes[0], p.hashes[1]});
        CHECK(f.counted(SLUICE_WHY_PARTIAL) == 1);
        f.events({event(2, removed(p.hashes[1]))});
        CHECK(f.held() == std::set<std::uint64_t>{p.hashes[0]});
        CHECK(f.host.reports("attested").size() == 1);
        CHECK(f.word().state == SLUICE_KV_LIVE);
    }

    TEST_CASE("one drain is in flight, however long the engine holds it") {
        Flow f;
        f.host.hold(kDrain);
        f.attach();
        CHECK(f.asked(kDrain) == 1);
        f.host.advance(10 * kSecond);
        CHECK(f.asked(kDrain) == 1);
        CHECK(f.host.requests.back().method == "GET");
        f.up();
        f.drain("[]");
        CHECK(f.asked(kDrain) > 1);
    }

    TEST_CASE("drains follow fast on events and slower on none") {
        Flow f;
        f.attach();
        f.host.advance(kSecond);
        const std::size_t idle = f.asked(kDrain);
        f.host.advance(kSecond);
        CHECK(f.asked(kDrain) - idle == 50);  // every 20 ms
        for (std::uint64_t id = 0; id < 100; ++id) {
            f.drains.push_back(ok(reply({event(id, removed(id))})));
        }
        const std::size_t before = f.asked(kDrain);
        f.host.advance(kSecond / 2);
        CHECK(f.asked(kDrain) - before > 90);  // every 5 ms
    }

    TEST_CASE("a rule that is changed while the engine holds a drain waits for its end") {
        Flow f;
        f.attach();
        f.host.hold(kDrain);
        f.host.advance(kSecond);
        const std::size_t before = f.asked(kDrain);
        f.detach();
        f.up();
        f.attach();
        f.host.advance(kSecond);
        CHECK(f.asked(kDrain) == before);  // that drain was in flight for a second
        f.host.advance(2 * kSecond);
        CHECK(f.asked(kDrain) > before);

        Flow slow;
        slow.host.hold(kDrain);
        slow.attach();
        slow.host.advance(2 * kSecond);
        slow.up();
        slow.host.run();
        slow.host.hold(kDrain);
        slow.host.advance(kSecond);
        const std::size_t held = slow.asked(kDrain);
        slow.detach();
        slow.up();
        slow.attach();
        slow.host.advance(3 * kSecond);
        CHECK(slow.asked(kDrain) == held);  // it was seen to hold drains for two seconds
        slow.host.advance(2 * kSecond);
        CHECK(slow.asked(kDrain) > held);

        Flow unknown;  // nothing tells how long it holds its first drain
        unknown.host.hold(kDrain);
        unknown.attach();
        const std::size_t first = unknown.asked(kDrain);
        unknown.detach();
        unknown.up();
        unknown.attach();
        unknown.host.advance(5 * kSecond);
        CHECK(unknown.asked(kDrain) == first);
        unknown.host.advance(2 * kSecond);
        CHECK(unknown.asked(kDrain) > first);
    }

    TEST_CASE("a reply that cannot be read empties every rank and the next one counts anew") {
        for (const HttpReply& bad :
             {ok(R"([{"event_id":3,"data":{"type":"stored","parent_hash":null,"b)"),
              ok(R"({"error":"x"})"), ok("null"), HttpReply{SLUICE_E_UNAVAILABLE, 200, "[{", {}},
              HttpReply{SLUICE_E_LIMIT, 200, "[{", {}}}) {
            Flow f;
            f.attach();
            f.events({event(0, stored(prompt(1, 64)))});
            CHECK(f.held().size() == 2);
            f.drains.push_back(bad);
            f.host.advance(25'000);
            CHECK(f.held().empty());
            CHECK(f.word().state == SLUICE_KV_UNPROVEN);
            CHECK(f.word().reason == "malformed");
            CHECK(f.counted(SLUICE_WHY_MALFORMED) == 1);
            f.host.advance(kSecond);
            f.events({event(9, stored(prompt(100, 64)))});
            CHECK(f.held() == set_of(prompt(100, 64)));
            CHECK(f.counted(SLUICE_WHY_GAP) == 0);
            CHECK(f.word().state == SLUICE_KV_LIVE);
        }
    }

    TEST_CASE("an engine that answers nothing readable is asked less and less") {
        Flow f;
        f.attach();
        f.host.answer(kDrain, ok("<html>"));
        f.host.advance(60 * kSecond);
        const std::size_t asked = f.asked(kDrain);
        f.host.advance(60 * kSecond);
        CHECK(f.asked(kDrain) - asked <= 13);
    }

    TEST_CASE("no reply changes nothing, and a gap after it is no one's fault") {
        Flow f;
        f.attach();
        f.events({event(0, stored(prompt(1, 64)))});
        f.drains = {code(500, "Internal Server Error"), code(404), down(),
                    HttpReply{SLUICE_E_TIMEOUT, 0, "", {}}};
        f.host.advance(5 * kSecond);
        CHECK(f.drains.empty());
        CHECK(f.held().size() == 2);
        CHECK(f.word().state == SLUICE_KV_LIVE);
        f.events({event(4, stored(prompt(100, 64)))});
        CHECK(f.held() == set_of(prompt(100, 64)));
        CHECK(f.word().state == SLUICE_KV_UNPROVEN);
        CHECK(f.word().reason == "gap");
        CHECK(f.counted(SLUICE_WHY_GAP) == 3);
    }

    TEST_CASE("an early build that has served nothing yet is waited for") {
        Flow f;
        f.host.answer("/server_info", code(404));
        f.host.answer(kDrain, code(500, "Internal Server Error"));
        f.attach();
        f.host.advance(10 * kSecond);
        CHECK(f.word().state == SLUICE_KV_WAITING);
        CHECK(f.asked(kDrain) > 10);
        f.up();
        f.host.advance(kSecond);
        CHECK(f.word().reason == "legacy");
    }

    TEST_CASE("an early build that has served and still has nothing to drain from is named") {
        Flow f;
        f.host.answer("/server_info", code(404));
        f.host.answer(kDrain, code(500, "Internal Server Error"));
        f.attach();
        f.serve(0);
        f.host.advance(6 * kSecond);
        CHECK(f.word().state == SLUICE_KV_UNPROVEN);
        CHECK(f.word().reason == "unreachable");
        f.up();
        f.host.advance(6 * kSecond);
        CHECK(f.word().state == SLUICE_KV_LIVE);
    }

    TEST_CASE("a drain that is not answered any more is named, and no more once it is") {
        Flow f;
        f.attach();
        f.host.advance(kSecond);
        f.host.hold(kDrain);
        f.host.advance(9 * kSecond);
        CHECK(f.word().state == SLUICE_KV_LIVE);
        f.host.advance(3 * kSecond);
        CHECK(f.word().state == SLUICE_KV_UNPROVEN);
        CHECK(f.word().reason == "unreachable");
        f.up();
        f.host.advance(kSecond);
        CHECK(f.word().state == SLUICE_KV_LIVE);

        Flow never;  // a build that might hold its first drain for long
        never.host.hold(kDrain);
        never.attach();
        never.host.advance(29 * kSecond);
        CHECK(never.word().state == SLUICE_KV_WAITING);
        never.host.advance(3 * kSecond);
        CHECK(never.word().reason == "unreachable");
    }

    TEST_CASE("replies lost again and again are one state and one line of the log") {
        Flow f;
        f.attach();
        const Prompt p = prompt(1, 64);
        for (std::uint64_t id = 0; id < 20; ++id) {
            f.drains = {ok("<html>"), ok(reply({event(id, stored(p))}))};
            f.host.advance(kSecond);
            REQUIRE(f.drains.empty());
        }
        CHECK(f.counted(SLUICE_WHY_MALFORMED) == 20);
        CHECK(f.word().reason == "malformed");
        const auto logs = f.host.logs();
        CHECK(std::count_if(logs.begin(), logs.end(),
                            [](const auto& line) { return line.message == "kv drain lost"; }) <= 2);
        for (std::uint64_t id = 20; id < 20 + GapJudge::kHealDrains; ++id) {
            f.events({event(id, removed(1))});
        }
        CHECK(f.word().state == SLUICE_KV_LIVE);
    }

    TEST_CASE("a second reader is named by its pattern, and no more once it has gone") {
        Flow f;
        f.attach();
        std::uint64_t id = 0;
        f.events({event(id++, removed(1)), event(id++, removed(2)), event(id++, removed(3))});
        for (int round = 0; round < 2; ++round) {
            id += 2;  // somebody else took two
            f.events({event(id++, stored(prompt(1, 64)))});
        }
        CHECK(f.word().state == SLUICE_KV_DEAD);
        CHECK(f.word().why == SLUICE_WHY_COMPETITOR);
        CHECK(f.word().reason == "second_consumer");
        CHECK_FALSE(f.word().advice.empty());
        for (unsigned i = 0; i < GapJudge::kHealDrains; ++i) {
            f.events({event(id++, removed(1))});
        }
        CHECK(f.word().state == SLUICE_KV_LIVE);
    }

    TEST_CASE("an overflowing ring is named by its full drains") {
        Flow f;
        f.attach();
        std::uint64_t id = 0;
        for (int round = 0; round < 3; ++round) {
            std::vector<std::string> full;
            for (int i = 0; i < 8; ++i) {
                full.push_back(event(id++, removed(1)));
            }
            f.events(full);
            if (round == 1) {
                CHECK(f.word().reason == "ring_overflow,second_consumer");  // one gap tells neither
            }
            id += 100;
        }
        CHECK(f.word().state == SLUICE_KV_UNPROVEN);
        CHECK(f.word().reason == "ring_overflow");
    }

    TEST_CASE("smaller numbers are a restart: blocks are dropped, admission is asked again") {
        Flow f;
        f.attach();
        f.events({event(100, stored(prompt(1, 64)))});
        const std::size_t asked = f.asked("/server_info");
        f.events({event(0, created()), event(1, stored(prompt(100, 64)))});
        CHECK(f.held() == set_of(prompt(100, 64)));
        CHECK(f.word().state == SLUICE_KV_LIVE);
        CHECK(f.word().reason == "restart");
        CHECK(f.counted(SLUICE_WHY_RESTART) == 1);
        f.host.advance(2 * kSecond);
        CHECK(f.asked("/server_info") == asked + 1);
    }

    TEST_CASE("a port that refused connections and answers again is another process") {
        Flow f;
        f.attach();
        f.events({event(0, stored(prompt(1, 64)))});
        const std::uint64_t epoch = f.host.facts.back().facts.epoch;
        f.all_down();
        f.host.advance(10 * kSecond);
        CHECK(f.word().state == SLUICE_KV_UNPROVEN);
        CHECK(f.word().reason == "unreachable");
        CHECK(f.held().size() == 2);
        f.up();
        f.host.advance(6 * kSecond);
        CHECK(f.host.facts.back().facts.epoch != epoch);
        CHECK(f.word().state == SLUICE_KV_LIVE);
        f.events({event(0, created()), event(1, stored(prompt(100, 64)))});
        CHECK(f.counted(SLUICE_WHY_RESTART) == 0);  // known before its first event
        CHECK(f.counted(SLUICE_WHY_GAP) == 0);
    }

    TEST_CASE("reset connections are no restart, another version is one") {
        Flow f;
        f.attach();
        f.host.advance(2 * kSecond);
        const std::uint64_t epoch = f.host.facts.back().facts.epoch;
        f.drains = {down(), down(), down()};
        f.host.advance(2 * kSecond);
        CHECK(f.drains.empty());
        CHECK(f.host.facts.back().facts.epoch == epoch);
        f.host.answer("/version", ok(R"({"version":"1.3.1"})"));
        f.host.advance(2 * kSecond);
        CHECK(f.host.facts.back().facts.epoch != epoch);
        CHECK(f.host.facts.back().version == "TensorRT-LLM 1.3.1");
    }

    TEST_CASE(
        "where only load and models are watched nothing is drained and no inventory emptied") {
        Flow f;
        f.attach(SLUICE_WATCH_LOAD | SLUICE_WATCH_MODELS);
        f.host.advance(3 * kSecond);
        CHECK(f.asked(kDrain) == 0);
        CHECK(f.asked("/server_info") == 0);
        CHECK(f.asked("/v1/models") > 0);
        CHECK(f.host.kv.empty());
        for (const auto& facts : f.host.facts) {
            CHECK(facts.facts.epoch == 0);
        }
        CHECK(f.host.facts.back().version == "TensorRT-LLM 1.3.0");
    }

    TEST_CASE("ranks have their own numbers, and the host hears of a new one before its blocks") {
        Flow f;
        f.attach();
        const char* rank1 = R"(,"attention_dp_rank":1)";
        f.events({event(0, stored(prompt(1, 64))), event(0, stored(prompt(100, 64)), rank1)});
        CHECK(f.held(0) == set_of(prompt(1, 64)));
        CHECK(f.held(1) == set_of(prompt(100, 64)));
        CHECK(f.host.facts.back().facts.num_dp_ranks == 2);
        f.events({event(1, removed(1)), event(9, stored(prompt(500, 64)), rank1)});
        CHECK(f.held(0) == set_of(prompt(1, 64)));
        CHECK(f.held(1) == set_of(prompt(500, 64)));
        f.events({event(0, removed(1), R"(,"attention_dp_rank":64)")});
        CHECK(f.counted(SLUICE_WHY_UNKNOWN) == 1);
    }

    TEST_CASE("an adapter's and a hidden salt's blocks are not the base model's") {
        Flow f;
        f.attach();
        f.events({event(0, stored(prompt(1, 96, 32, {.lora_id = 3, .salt_id = {}}))),
                  event(1, stored(prompt(1, 96, 32, {.lora_id = {}, .salt_id = 3})))});
        // What hangs on the salted block names it as its parent, which the host does not hold.
        for (const KvSeen& k : f.host.kv) {
            for (const auto& e : k.events) {
                CHECK(e.parent == prompt(1, 96, 32, {.lora_id = {}, .salt_id = 3}).hashes[0]);
                CHECK((e.flags & SLUICE_KV_HAS_PARENT) != 0);
            }
        }
        CHECK(f.counted(SLUICE_WHY_NOT_LOOKUP) == 4);
    }
}
