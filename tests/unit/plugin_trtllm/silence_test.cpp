// Served traffic without events: which setting of the engine it is, as far as usage shows.
#include "tests/unit/plugin_trtllm/flow.hpp"

using namespace sluice;
using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

TEST_SUITE("trtllm/silence") {
    TEST_CASE("no events although tokens are cached: the buffer is off, or another way is on") {
        Flow f;
        f.attach();
        f.serve(0);
        f.serve(64, true);
        f.host.advance(6 * kSecond);
        CHECK(f.word().state == SLUICE_KV_DEAD);
        CHECK(f.word().reason == "events_empty");
        CHECK(f.word().advice.find("event_buffer_max_size") != std::string::npos);
        f.events({event(0, stored(prompt(1, 64)))});
        f.host.advance(2 * kSecond);
        CHECK(f.word().state == SLUICE_KV_LIVE);
    }

    TEST_CASE("repeats without cached tokens: reuse is off") {
        Flow f;
        f.attach();
        f.serve(0);
        f.serve(0, true);
        f.serve(0, true);
        f.host.advance(6 * kSecond);
        CHECK(f.word().reason == "reuse_off");
        CHECK(f.word().advice.find("enable_block_reuse") != std::string::npos);
    }

    TEST_CASE("where usage tells nothing both settings are named") {
        Flow f;
        f.attach();
        for (std::uint32_t i = 0; i < Served::kManyUntold; ++i) {
            f.serve(SLUICE_ANY);
        }
        f.host.advance(6 * kSecond);
        CHECK(f.word().reason == "events_empty,reuse_off");
    }

    TEST_CASE("nothing is said of prompts below a block, of blocks that were there, or too early") {
        Flow f;
        f.attach();
        for (int i = 0; i < 10; ++i) {
            f.serve(0, true, 0);
        }
        f.serve(64, true);
        f.serve(64, true);
        f.host.advance(10 * kSecond);
        CHECK(f.word().state == SLUICE_KV_LIVE);
        f.serve(0);
        f.host.advance(kSecond);
        f.events({event(0, stored(prompt(1, 64)))});
        f.host.advance(10 * kSecond);
        CHECK(f.word().state == SLUICE_KV_LIVE);
    }
}
