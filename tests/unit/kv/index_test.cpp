#include "core/kv/index.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "tests/unit/kv/events.hpp"

using namespace sluice;
using namespace sluice::kv;
using namespace sluice::kv::test;

namespace {

struct Fixture {
    Index index{IndexOptions{}};
    std::vector<std::uint32_t> tokens = tokens_of(4);
    std::vector<Key> keys = keys_of(tokens);

    Fixture() { REQUIRE(index.attach(1, 2)); }
    void feed(const std::vector<Event>& events) { REQUIRE(test::apply(index, 1, 0, events)); }
    Reach reach() const { return test::reach(index, keys); }
};

}  // namespace

TEST_SUITE_BEGIN("kv/index");

TEST_CASE_FIXTURE(Fixture, "stored blocks match a prompt of the same tokens from its start") {
    feed({stored({1, 2, 3}, tokens_of(3))});
    CHECK(reach() == Reach{3, 3, 0});
    CHECK(test::reach(index, {keys[1], keys[2]}) == Reach{2, 2, 0});
    CHECK(test::reach(index, keys_of(tokens_of(4, 99))) == Reach{});
    CHECK(test::reach(index, keys, 1, 1) == Reach{});
    CHECK(test::reach(index, {}) == Reach{});
}

TEST_CASE_FIXTURE(Fixture, "a later event continues at its parent") {
    feed({stored({1, 2}, tokens_of(2))});
    feed({stored({3, 4}, tokens_of(2, 12), 2)});
    CHECK(reach() == Reach{4, 4, 0});
}

TEST_CASE_FIXTURE(Fixture, "a hole ends the prefix and filling it restores the rest") {
    feed({stored({1, 2, 3, 4}, tokens), removed({2})});
    CHECK(reach() == Reach{1, 1, 0});
    feed({stored({2}, tokens_of(1, 11), 1)});
    CHECK(reach() == Reach{4, 4, 0});
}

TEST_CASE_FIXTURE(Fixture, "blocks under an unknown parent find no place and may be removed") {
    std::uint32_t unplaced = 9;
    REQUIRE(test::apply(index, 1, 0, {stored({7, 8}, tokens_of(2), 6)}, &unplaced));
    CHECK(unplaced == 2);
    CHECK(stats_of(index, 1).total_blocks == 0);
    REQUIRE(test::apply(index, 1, 0, {removed({7, 8})}, &unplaced));
    CHECK(unplaced == 0);
    CHECK(stats_of(index, 1).unplaced == 2);
    CHECK(stats_of(index, 1).unknown_removals == 2);
}

TEST_CASE_FIXTURE(Fixture, "a known block under an unknown parent keeps its place") {
    feed({stored({1, 2}, tokens_of(2)), removed({1})});
    std::uint32_t unplaced = 0;
    REQUIRE(test::apply(index, 1, 0, {stored({2, 3}, tokens_of(2, 11), 1)}, &unplaced));
    CHECK(unplaced == 0);
    feed({stored({1}, tokens_of(1))});
    CHECK(test::reach(index, keys_of(tokens_of(3))) == Reach{3, 3, 0});
}

TEST_CASE_FIXTURE(Fixture, "counted copies each need their own removal") {
    const Event copy = counted(stored({1}, tokens_of(1)));
    feed({copy, copy, counted(removed({1}))});
    CHECK(reach() == Reach{1, 1, 0});
    feed({counted(removed({1}))});
    CHECK(reach() == Reach{});
}

TEST_CASE_FIXTURE(Fixture,
                  "an index that comes late to an endpoint goes on like the one before it") {
    const Event twice = counted(stored({1, 2}, tokens_of(2)));
    feed({twice, twice, counted(stored({3}, tokens_of(1, 12), 2))});
    Index late{IndexOptions{}};
    REQUIRE(late.attach(1, 2));
    REQUIRE(late.attach(7, 1));
    REQUIRE(test::apply(late, 1, 0, {stored({9}, tokens_of(1))}));  // what it had is replaced
    late.copy(index, 1);
    late.copy(index, 7);    // of no interest to the other
    late.copy(index, 100);  // to nobody
    CHECK(test::reach(late, keys) == reach());
    CHECK(test::stats_of(late, 1).gpu_blocks == test::stats_of(index, 1).gpu_blocks);
    // The same batches move both from here on: copies were taken over with their number, and a
    // parent is found by the engine's hash.
    const std::vector<Event> next = {counted(removed({2})), counted(removed({9})),
                                     counted(stored({4}, tokens_of(1, 13), 3))};
    feed(next);
    REQUIRE(test::apply(late, 1, 0, next));
    CHECK(test::reach(late, keys) == reach());
    CHECK(test::reach(late, keys).blocks == 4);
    const std::vector<Event> last = {counted(removed({2}))};
    feed(last);
    REQUIRE(test::apply(late, 1, 0, last));
    CHECK(test::reach(late, keys) == reach());
    CHECK(test::reach(late, keys).blocks == 1);
    late.reset(1, SLUICE_ANY);
    CHECK(test::reach(late, keys) == Reach{});
    CHECK(reach().blocks == 1);
}

TEST_CASE_FIXTURE(Fixture, "doubt is taken over with the blocks it is about") {
    feed({stored({1, 2}, tokens_of(2))});
    test::report(index, 1, SLUICE_ANY, SLUICE_KV_UNPROVEN);
    CHECK(reach().doubtful == 2);
    Index late{IndexOptions{}};
    REQUIRE(late.attach(1, 2));
    late.copy(index, 1);
    CHECK(test::reach(late, keys) == reach());
    test::report(late, 1, SLUICE_ANY, SLUICE_KV_LIVE);
    CHECK(test::reach(late, keys).doubtful == 0);
    CHECK(reach().doubtful == 2);
}

TEST_CASE_FIXTURE(Fixture, "an index with a smaller bound takes over no more than that") {
    Index late{IndexOptions{.max_blocks_per_endpoint = 1000}};
    REQUIRE(late.attach(1, 2));
    std::vector<std::uint64_t> hashes(3000);
    std::iota(hashes.begin(), hashes.end(), 1U);
    feed({stored(hashes, tokens_of(3000))});
    late.copy(index, 1);
    CHECK(test::stats_of(late, 1).total_blocks == 1000);
    CHECK(late.list(1, 5000).size() == 1000);
}

TEST_CASE_FIXTURE(Fixture, "without counting a repeated store is one store") {
    feed({stored({1}, tokens_of(1)), stored({1}, tokens_of(1)), removed({1})});
    CHECK(reach() == Reach{});
}

TEST_CASE_FIXTURE(Fixture, "copies beyond 255 are told and never lead to a claim too many") {
    for (int i = 0; i < 300; ++i) {
        feed({counted(stored({1}, tokens_of(1)))});
    }
    CHECK(stats_of(index, 1).saturated_copies == 45);
    for (int i = 0; i < 254; ++i) {
        feed({counted(removed({1}))});
    }
    CHECK(reach() == Reach{1, 1, 0});
    feed({counted(removed({1}))});
    CHECK(reach() == Reach{});
}

TEST_CASE_FIXTURE(Fixture, "a removal concerns its own tier alone") {
    feed({stored({1, 2}, tokens_of(2)), on(SLUICE_TIER_HOST, stored({1, 2}, {}))});
    CHECK(reach() == Reach{2, 2, 0});
    feed({removed({2})});
    CHECK(reach() == Reach{2, 1, 0});
    feed({on(SLUICE_TIER_HOST, removed({2}))});
    CHECK(reach() == Reach{1, 1, 0});
}

TEST_CASE_FIXTURE(Fixture, "each tier holds by itself, also those without a place in the block") {
    for (const std::uint32_t tier : {SLUICE_TIER_HOST, SLUICE_TIER_DISK, SLUICE_TIER_REMOTE}) {
        CAPTURE(tier);
        feed({stored({1}, tokens_of(1)), on(tier, counted(stored({1}, {}))),
              on(tier, counted(stored({1}, {}))), removed({1})});
        CHECK(reach() == Reach{1, 0, 0});
        feed({on(tier, counted(removed({1})))});
        CHECK(reach() == Reach{1, 0, 0});
        feed({on(tier, counted(removed({1})))});
        CHECK(reach() == Reach{});
        CHECK(stats_of(index, 1).total_blocks == 0);
    }
}

TEST_CASE_FIXTURE(Fixture, "a move is a store on the new tier and a removal on the old") {
    feed({stored({1}, tokens_of(1))});
    Event moved = on(SLUICE_TIER_HOST, stored({1}, {}));
    moved.block_tokens = 0;
    feed({moved, removed({1})});
    CHECK(reach() == Reach{1, 0, 0});
}

TEST_CASE_FIXTURE(Fixture, "events whose tokens do not fit only mark known hashes") {
    feed({stored({1}, tokens_of(1))});
    struct Row {
        const char* name;
        std::uint32_t block_tokens;
        std::vector<std::uint32_t> tokens;
    };
    for (const Row& row : {Row{"no size", 0, tokens_of(2)}, Row{"no tokens", 4, {}},
                           Row{"windowed", 4, tokens_of(5)}, Row{"other size", 8, tokens_of(2)}}) {
        CAPTURE(row.name);
        Event e = on(SLUICE_TIER_DISK, stored({1, 2}, row.tokens));
        e.block_tokens = row.block_tokens;
        std::uint32_t unplaced = 0;
        REQUIRE(test::apply(index, 1, 0, {e}, &unplaced));
        CHECK(unplaced == 1);
        CHECK(stats_of(index, 1).total_blocks == 1);
    }
}

TEST_CASE_FIXTURE(Fixture, "an opaque block and what hangs on it match nothing but are held") {
    Event e = stored({1, 2, 3}, tokens_of(3));
    e.opaque = {0, 1, 0};
    feed({e, stored({4}, tokens_of(1, 13), 3)});
    CHECK(reach() == Reach{1, 1, 0});
    CHECK(stats_of(index, 1).total_blocks == 4);
    feed({removed({1, 2, 3, 4})});
    CHECK(stats_of(index, 1).total_blocks == 0);
    CHECK(stats_of(index, 1).unknown_removals == 0);
}

TEST_CASE_FIXTURE(Fixture, "a hash stored again as opaque stops matching") {
    feed({stored({1, 2}, tokens_of(2))});
    Event e = stored({2}, tokens_of(1, 11), 1);
    e.opaque = {1};
    feed({e});
    CHECK(reach() == Reach{1, 1, 0});
    feed({stored({2}, tokens_of(1, 11), 1)});
    CHECK(reach() == Reach{2, 2, 0});
}

TEST_CASE_FIXTURE(Fixture, "a hash stored under another parent moves there") {
    feed({stored({1}, tokens_of(1)), stored({5}, tokens_of(1, 50)),
          stored({2}, tokens_of(1, 11), 1)});
    feed({stored({2}, tokens_of(1, 11), 5)});
    CHECK(reach() == Reach{1, 1, 0});
    auto other = tokens_of(1, 50);
    const auto tail = tokens_of(1, 11);
    other.insert(other.end(), tail.begin(), tail.end());
    CHECK(test::reach(index, keys_of(other)) == Reach{2, 2, 0});
    feed({removed({2})});
    CHECK(test::reach(index, keys_of(other)) == Reach{1, 1, 0});
}

TEST_CASE_FIXTURE(Fixture, "two hashes of one block hold it until both are gone") {
    feed({stored({1}, tokens_of(1)), stored({9}, tokens_of(1)), stored({8}, tokens_of(1)),
          on(SLUICE_TIER_HOST, stored({9}, {}))});
    feed({removed({1, 8})});
    CHECK(reach() == Reach{1, 1, 0});
    feed({removed({9})});
    CHECK(reach() == Reach{1, 0, 0});
    feed({on(SLUICE_TIER_HOST, removed({9}))});
    CHECK(reach() == Reach{});
}

TEST_CASE_FIXTURE(Fixture, "LoRA and salt root the chain") {
    Event e = stored({1, 2}, tokens_of(2));
    e.lora = "adapter";
    e.salt = "s";
    feed({e, stored({3}, tokens_of(1, 12), 2)});
    CHECK(reach() == Reach{});
    CHECK(test::reach(index, keys_of(tokens, "adapter")) == Reach{});
    CHECK(test::reach(index, keys_of(tokens, "adapter", "s")) == Reach{3, 3, 0});
}

TEST_CASE_FIXTURE(Fixture, "a clear takes its tier and group and later events count anew") {
    feed({stored({1, 2}, tokens_of(2)), on(SLUICE_TIER_HOST, stored({2}, {}))});
    feed({counted(stored({1}, tokens_of(1))), cleared(), counted(stored({1}, tokens_of(1)))});
    CHECK(reach() == Reach{2, 1, 0});
    feed({counted(removed({1}))});
    CHECK(reach() == Reach{});
    feed({cleared(SLUICE_ANY)});
    CHECK(stats_of(index, 1).total_blocks == 0);
    feed({cleared(SLUICE_TIER_GPU, 77)});
}

TEST_CASE_FIXTURE(Fixture, "with several groups a block is held when all of them hold it") {
    feed({stored({1, 2}, tokens_of(2))});
    CHECK(reach() == Reach{2, 2, 0});
    feed({in_group(7, stored({1}, tokens_of(1)))});
    CHECK(reach() == Reach{1, 1, 0});
    feed({in_group(7, stored({2}, tokens_of(1, 11), 1))});
    CHECK(reach() == Reach{2, 2, 0});
    feed({in_group(7, removed({1}))});
    CHECK(reach() == Reach{});
    feed({in_group(7, on(SLUICE_TIER_DISK, stored({1}, {})))});
    CHECK(reach() == Reach{2, 0, 0});
    feed({cleared(SLUICE_TIER_GPU, 7)});
    CHECK(reach() == Reach{1, 0, 0});
    feed({removed({1, 2})});
    CHECK(stats_of(index, 1).total_blocks == 1);
}

TEST_CASE_FIXTURE(Fixture, "more than 32 groups on a rank refuse the batch") {
    for (std::uint32_t g = 0; g < 32; ++g) {
        feed({in_group(g, stored({1}, tokens_of(1)))});
    }
    CHECK(reach() == Reach{1, 1, 0});
    const Status status = test::apply(index, 1, 0, {removed({1}), in_group(32, stored({1}, {}))});
    REQUIRE(!status);
    CHECK(status.error().code == Code::Limit);
    CHECK(reach() == Reach{1, 1, 0});
}

TEST_CASE_FIXTURE(Fixture, "a malformed event refuses its batch as a whole") {
    feed({stored({1}, tokens_of(1))});
    Event no_type = stored({2}, tokens_of(1));
    no_type.type = 0;
    Event no_tier = stored({2}, tokens_of(1));
    no_tier.tier = 0;
    Event any_group = removed({1});
    any_group.group = SLUICE_ANY;
    for (const Event& bad : {no_type, no_tier, any_group}) {
        const Status status = test::apply(index, 1, 0, {removed({1}), bad});
        REQUIRE(!status);
        CHECK(status.error().code == Code::Invalid);
        CHECK(reach() == Reach{1, 1, 0});
    }
    sluice_kv_event e{};
    e.size = sizeof e;
    e.type = SLUICE_KV_STORED;
    e.tier = SLUICE_TIER_GPU;
    e.num_hashes = 3;
    sluice_kv_batch batch{};
    batch.size = sizeof batch;
    batch.endpoint = 1;
    batch.events = {&e, 1, sizeof e};
    CHECK(index.apply(batch).error().code == Code::Invalid);
    batch.events.stride = 8;
    CHECK(index.apply(batch).error().code == Code::Invalid);
    batch.size = 4;
    CHECK(index.apply(batch).error().code == Code::Invalid);
}

TEST_CASE_FIXTURE(Fixture, "what is not attached is not found") {
    CHECK(test::apply(index, 2, 0, {}).error().code == Code::NotFound);
    CHECK(test::apply(index, 1, 2, {}).error().code == Code::NotFound);
    CHECK(index.attach(3, 0).error().code == Code::Invalid);
    feed({stored({1}, tokens_of(1))});
    index.detach(1);
    CHECK(reach() == Reach{});
    CHECK(test::apply(index, 1, 0, {stored({1}, tokens_of(1))}).error().code == Code::NotFound);
    CHECK(index.stats().empty());
    REQUIRE(index.attach(1, 1));
    CHECK(reach() == Reach{});
    index.detach(77);
}

TEST_CASE_FIXTURE(Fixture, "attaching again adds and forgets ranks and keeps the others") {
    feed({stored({1}, tokens_of(1))});
    REQUIRE(test::apply(index, 1, 1, {stored({1}, tokens_of(1))}));
    REQUIRE(index.attach(1, 3));
    CHECK(test::reach(index, keys, 1, 1) == Reach{1, 1, 0});
    REQUIRE(index.attach(1, 1));
    CHECK(reach() == Reach{1, 1, 0});
    CHECK(test::reach(index, keys, 1, 1) == Reach{});
    CHECK(index.stats().size() == 1);
}

TEST_CASE("more ranks than ids are refused and leave the rule as it was") {
    Index index{IndexOptions{}};
    REQUIRE(index.attach(1, 1000));
    const Status status = index.attach(2, 65'000);
    REQUIRE(!status);
    CHECK(status.error().code == Code::Limit);
    CHECK(index.stats().size() == 1000);
    CHECK(index.attach(1, 65'537).error().code == Code::Limit);
    CHECK(index.attach(2, 64));
}

TEST_CASE_FIXTURE(Fixture, "a reset forgets one rank or all, doubt included") {
    for (const std::uint32_t rank : {0U, 1U}) {
        REQUIRE(test::apply(index, 1, rank, {stored({1, 2}, tokens_of(2))}));
        report(index, 1, rank, SLUICE_KV_UNPROVEN);
    }
    index.reset(1, 1);
    CHECK(reach() == Reach{0, 0, 2});
    CHECK(test::reach(index, keys, 1, 1) == Reach{});
    CHECK_FALSE(stats_of(index, 1, 1).doubtful);
    index.reset(1, SLUICE_ANY);
    CHECK(reach() == Reach{});
    feed({stored({1}, tokens_of(1))});
    CHECK(reach() == Reach{1, 1, 0});
    index.reset(9, SLUICE_ANY);
}

TEST_CASE_FIXTURE(Fixture, "doubt covers what was stored before it and ends when the link lives") {
    feed({stored({1, 2, 3}, tokens_of(3))});
    report(index, 1, 0, SLUICE_KV_UNPROVEN);
    CHECK(stats_of(index, 1).doubtful);
    CHECK(reach() == Reach{0, 0, 3});
    feed({stored({1}, tokens_of(1)), stored({4}, tokens_of(1, 13), 3)});
    CHECK(reach() == Reach{1, 1, 3});
    report(index, 1, 0, SLUICE_KV_SAME);
    CHECK(reach() == Reach{1, 1, 3});
    SUBCASE("a second report covers what came since the first") {
        report(index, 1, 0, SLUICE_KV_UNPROVEN);
        CHECK(reach() == Reach{0, 0, 4});
    }
    SUBCASE("live ends it") {
        report(index, 1, SLUICE_ANY, SLUICE_KV_LIVE);
        CHECK(reach() == Reach{4, 4, 0});
        CHECK_FALSE(stats_of(index, 1).doubtful);
        report(index, 1, 0, SLUICE_KV_UNPROVEN);
        CHECK(reach() == Reach{0, 0, 4});
    }
    SUBCASE("a copy stored in doubt is the first to be given up") {
        feed({counted(removed({1}))});
        CHECK(reach() == Reach{});
    }
}

TEST_CASE_FIXTURE(Fixture, "in doubt a new copy elsewhere proves the block but not its old place") {
    feed({stored({1}, tokens_of(1))});
    report(index, 1, 0, SLUICE_KV_UNPROVEN);
    feed({on(SLUICE_TIER_HOST, stored({1}, {}))});
    CHECK(reach() == Reach{1, 0, 0});
    feed({on(SLUICE_TIER_DISK, stored({1}, {})), on(SLUICE_TIER_HOST, removed({1}))});
    CHECK(reach() == Reach{1, 0, 0});
    feed({on(SLUICE_TIER_DISK, removed({1}))});
    CHECK(reach() == Reach{0, 0, 1});
}

TEST_CASE_FIXTURE(Fixture, "a counted copy in doubt leaves the older one doubtful when removed") {
    feed({counted(stored({1}, tokens_of(1)))});
    report(index, 1, 0, SLUICE_KV_UNPROVEN);
    feed({counted(stored({1}, tokens_of(1)))});
    CHECK(reach() == Reach{1, 1, 0});
    feed({counted(removed({1}))});
    CHECK(reach() == Reach{0, 0, 1});
}

TEST_CASE("with engine keys the engine's hashes are looked up, in whatever order they came") {
    Index index{IndexOptions{.engine_keys = true}};
    REQUIRE(index.attach(1, 1));
    Event e = stored({0, 2, 3}, {}, 1000);
    e.block_tokens = 0;
    std::uint32_t unplaced = 9;
    REQUIRE(test::apply(index, 1, 0, {e}, &unplaced));
    CHECK(unplaced == 0);
    CHECK(test::reach(index, {0, 2, 3, 4}) == Reach{3, 3, 0});
    e.hashes = {4, 5};
    e.opaque = {1, 0};
    e.parent = 3;
    REQUIRE(test::apply(index, 1, 0, {e}));
    CHECK(test::reach(index, {0, 2, 3, 4, 5}) == Reach{3, 3, 0});
    CHECK(stats_of(index, 1).total_blocks == 5);
}

TEST_CASE_FIXTURE(Fixture, "a prompt matched token by token gives what its keys give") {
    feed({stored({1, 2, 3}, tokens_of(3))});
    MatchSet lazily;
    index.match_prompt(root_key({}, {}), tokens, 4, lazily);
    REQUIRE(lazily.find(1, 0) != nullptr);
    CHECK(lazily.find(1, 0)->blocks == 3);
    CHECK(lazily.walked_blocks() == 4);
    index.match_prompt(root_key({}, {}), tokens, 0, lazily);
    CHECK(lazily.empty());
    index.match_prompt(root_key({}, {}), tokens_of(2), 4, lazily);
    CHECK(lazily.find(1, 0)->blocks == 2);
}

TEST_CASE("any number of holders match in one walk and each stops where it stops") {
    Index index{IndexOptions{}};
    constexpr std::uint32_t kRanks = 200;  // four stripes of ids
    REQUIRE(index.attach(1, kRanks));
    const auto tokens = tokens_of(50);
    const auto keys = keys_of(tokens);
    for (std::uint32_t r = 0; r < kRanks; ++r) {
        std::vector<std::uint64_t> hashes;
        for (std::uint32_t i = 0; i < r % 51; ++i) {
            hashes.push_back(1000 + i);
        }
        const std::vector<std::uint32_t> part(
            tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(hashes.size() * 4));
        REQUIRE(test::apply(index, 1, r, {stored(hashes, part)}));
    }
    for (const std::uint32_t lower : {0U, 1U}) {
        // The second time through half of the ranks are gone again.
        MatchSet out;
        index.match(keys, out);
        for (std::uint32_t r = 0; r < kRanks; ++r) {
            CAPTURE(r);
            const Match* m = out.find(1, r);
            const std::uint32_t want = lower == 1 && r % 2 == 0 ? 0 : r % 51;
            REQUIRE((m == nullptr) == (want == 0));
            if (m != nullptr) {
                CHECK(m->blocks == want);
                CHECK(m->gpu_blocks == want);
                CHECK(m->doubtful_blocks == 0);
            }
        }
        CHECK(out.best_rank(1)->blocks == 50);
        for (std::uint32_t r = 0; r < kRanks; r += 2) {
            index.reset(1, r);
        }
    }
}

TEST_CASE("the index lists an endpoint's keys up to a limit") {
    Index index{IndexOptions{}};
    for (std::uint64_t endpoint = 1; endpoint <= 5; ++endpoint) {
        REQUIRE(index.attach(endpoint, 1));
        REQUIRE(test::apply(index, endpoint, 0, {stored({1, 2, 3}, tokens_of(3))}));
    }
    auto want = keys_of(tokens_of(3));
    auto got = index.list(3, 100);
    std::sort(want.begin(), want.end());
    std::sort(got.begin(), got.end());
    CHECK(got == want);
    CHECK(index.list(3, 2).size() == 2);
    CHECK(index.list(6, 2).empty());
    REQUIRE(test::apply(index, 3, 0, {cleared()}));
    CHECK(index.list(3, 100).empty());
    CHECK(index.list(4, 100).size() == 3);
}

TEST_SUITE_END();
