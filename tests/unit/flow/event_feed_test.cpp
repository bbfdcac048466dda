#include "core/flow/event_feed.hpp"

#include <doctest/doctest.h>

#include "tests/unit/flow/event_reader.hpp"

using namespace sluice;
using namespace sluice::flow;
using namespace sluice::flow::test;

namespace {

struct Site {
    std::vector<std::uint32_t> opened;
    int wakes = 0;
    EventFeed feed{1000,
                   {[this](std::uint32_t rank, const EventLogPtr&) { opened.push_back(rank); },
                    [this] {
                        ++wakes;
                    }}};
    std::uint64_t hashes[2] = {7, 8};
    std::uint32_t tokens[4] = {1, 2, 3, 4};

    void store(std::uint32_t rank = 0) {
        sluice_kv_event e{};
        e.size = sizeof e;
        e.type = SLUICE_KV_STORED;
        e.flags = SLUICE_KV_COPIES;
        e.tier = SLUICE_TIER_GPU;
        e.block_tokens = 2;
        e.num_hashes = 2;
        e.hashes = hashes;
        e.num_tokens = 4;
        e.tokens = tokens;
        std::vector<sluice_kv_event> events{e};
        feed.apply(batch_of(events, rank));
    }
    void report(std::uint32_t state, std::uint32_t rank = SLUICE_ANY) {
        sluice_kv_report r{};
        r.size = sizeof r;
        r.dp_rank = rank;
        r.endpoint = 1;
        r.state = state;
        feed.report(r);
    }
    EventLog::Usage usage(std::uint32_t rank = 0) { return feed.log(rank)->usage(); }
    vllm::Batch last(std::uint32_t rank = 0) {
        const auto log = feed.log(rank);
        return decoded(*log->read(0, 1000, 1 << 20).back().payload);
    }
};

}  // namespace

TEST_SUITE("flow/event_feed") {
    TEST_CASE("each rank has its own numbers, and one nobody knew of asks for its ports") {
        Site site;
        site.store(0);
        site.store(0);
        site.store(2);
        CHECK(site.opened == std::vector<std::uint32_t>{0, 2});
        CHECK(site.usage(0).next == 2);
        CHECK(site.usage(2).next == 1);
        CHECK(site.last(2).rank == 2);
        CHECK(site.wakes == 3);
        site.store(EventFeed::kMaxRanks);
        CHECK(site.opened.size() == 2);
    }

    TEST_CASE("a reset clears readers once") {
        Site site;
        site.feed.reset(SLUICE_ANY);
        CHECK(site.usage().next == 0);
        site.store();
        site.feed.reset(0);
        site.feed.reset(SLUICE_ANY);
        CHECK(site.usage().next == 2);
        REQUIRE(site.last().events.size() == 1);
        CHECK(site.last().events[0].kind == vllm::EventKind::Cleared);
    }

    TEST_CASE("a signal that turns doubtful is a hole before an empty batch, once a turn") {
        Site site;
        site.report(SLUICE_KV_UNPROVEN);
        CHECK(site.usage().burned == 0);  // nobody holds anything
        site.report(SLUICE_KV_LIVE);
        site.store();
        site.report(SLUICE_KV_UNPROVEN);
        site.report(SLUICE_KV_UNPROVEN);
        site.report(SLUICE_KV_SAME);
        CHECK(site.usage().burned == 1);
        CHECK(site.usage().next == 3);
        CHECK(site.last().events.empty());
        site.report(SLUICE_KV_LIVE, 0);
        site.report(SLUICE_KV_UNPROVEN, 1);
        CHECK(site.usage().burned == 1);
        site.report(SLUICE_KV_UNPROVEN, 0);
        CHECK(site.usage().burned == 2);
    }

    TEST_CASE("a signal that is dead or refused clears readers") {
        for (const std::uint32_t state :
             {std::uint32_t{SLUICE_KV_DEAD}, std::uint32_t{SLUICE_KV_REFUSED}}) {
            Site site;
            site.store();
            site.report(state);
            site.report(state);
            CHECK(site.usage().next == 2);
            CHECK(site.last().events.at(0).kind == vllm::EventKind::Cleared);
        }
    }
}
