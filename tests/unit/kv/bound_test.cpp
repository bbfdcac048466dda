#include <doctest/doctest.h>

#include "core/kv/index.hpp"
#include "tests/unit/kv/events.hpp"

using namespace sluice;
using namespace sluice::kv;
using namespace sluice::kv::test;

namespace {

// Blocks that all begin a prompt: block i is one block of tokens i.
Event heads(std::uint64_t from, std::uint64_t to) {
    Event e;
    for (std::uint64_t i = from; i < to; ++i) {
        e.hashes.push_back(i);
    }
    return e;
}

void store_heads(Index& index, std::uint64_t endpoint, std::uint64_t from, std::uint64_t to,
                 std::uint32_t rank = 0) {
    std::vector<Event> events;
    for (std::uint64_t i = from; i < to; ++i) {
        events.push_back(stored({i}, tokens_of(1, static_cast<std::uint32_t>(i))));
    }
    REQUIRE(test::apply(index, endpoint, rank, events));
}

std::size_t held(const Index& index, std::uint64_t endpoint, std::uint64_t from, std::uint64_t to,
                 std::uint32_t rank = 0) {
    std::size_t n = 0;
    for (std::uint64_t i = from; i < to; ++i) {
        const auto keys = keys_of(tokens_of(1, static_cast<std::uint32_t>(i)));
        n += reach(index, keys, endpoint, rank).blocks;
    }
    return n;
}

}  // namespace

TEST_SUITE_BEGIN("kv/bound");

TEST_CASE("at its bound an endpoint drops what was stored longest ago and others keep theirs") {
    Index index{IndexOptions{.max_blocks_per_endpoint = 1000}};
    REQUIRE(index.attach(1, 1));
    REQUIRE(index.attach(2, 1));
    store_heads(index, 2, 0, 1000);
    store_heads(index, 1, 0, 1000);
    CHECK(held(index, 1, 0, 1000) == 1000);
    store_heads(index, 1, 0, 100);  // used again: young
    store_heads(index, 1, 1000, 1300);
    CHECK(held(index, 1, 0, 100) == 100);
    CHECK(held(index, 1, 100, 332) == 0);
    CHECK(held(index, 1, 332, 500) == 100);
    CHECK(held(index, 1, 500, 1300) == 800);
    CHECK(stats_of(index, 1).evictions == 300);
    CHECK(stats_of(index, 1).total_blocks == 1000);
    CHECK(stats_of(index, 2).evictions == 0);
    CHECK(held(index, 2, 0, 1000) == 1000);
}

TEST_CASE("an evicted block is gone from both tables") {
    Index index{IndexOptions{.max_blocks_per_endpoint = 1000}};
    REQUIRE(index.attach(1, 1));
    store_heads(index, 1, 0, 5000);
    CHECK(index.list(1, 10'000).size() == 1000);
    const auto before = stats_of(index, 1);
    REQUIRE(test::apply(index, 1, 0, {[] {
                            Event e = heads(0, 5000);
                            e.type = SLUICE_KV_REMOVED;
                            return e;
                        }()}));
    const auto after = stats_of(index, 1);
    CHECK(after.total_blocks == 0);
    CHECK(after.unknown_removals - before.unknown_removals == 4000);
    CHECK(index.list(1, 10'000).empty());
}

TEST_CASE("the bound holds over all ranks of an endpoint and counts tiers beyond host") {
    Index index{IndexOptions{.max_blocks_per_endpoint = 1000}};
    REQUIRE(index.attach(1, 4));
    for (std::uint32_t r = 0; r < 4; ++r) {
        store_heads(index, 1, 0, 400, r);
    }
    std::uint64_t total = 0;
    for (std::uint32_t r = 0; r < 4; ++r) {
        total += stats_of(index, 1, r).total_blocks;
    }
    CHECK(total == 1000);
    CHECK(held(index, 1, 0, 400, 3) == 400);
    REQUIRE(test::apply(index, 1, 3, {on(SLUICE_TIER_DISK, heads(0, 400))}));
    total = 0;
    for (std::uint32_t r = 0; r < 4; ++r) {
        total += stats_of(index, 1, r).total_blocks;
    }
    CHECK(total + 400 <= 1001);
}

TEST_CASE("one event larger than the bound is cut, not refused") {
    Index index{IndexOptions{.max_blocks_per_endpoint = 1000}};
    REQUIRE(index.attach(1, 1));
    Event e = heads(0, 3000);
    e.tokens = tokens_of(3000);
    REQUIRE(test::apply(index, 1, 0, {e}));
    CHECK(stats_of(index, 1).total_blocks == 1000);
    CHECK(stats_of(index, 1).evictions == 2000);
}

TEST_CASE("a smaller bound takes effect at once") {
    Index index{IndexOptions{.max_blocks_per_endpoint = 5000}};
    REQUIRE(index.attach(1, 1));
    store_heads(index, 1, 0, 5000);
    index.set_max_blocks(1000);
    CHECK(stats_of(index, 1).total_blocks == 1000);
    CHECK(stats_of(index, 1).evictions == 4000);
    CHECK(index.list(1, 10'000).size() == 1000);
}

TEST_CASE("memory stays flat while blocks come and go, and goes when they do") {
    constexpr std::uint64_t kBlocks = 50'000;
    Index index{IndexOptions{.max_blocks_per_endpoint = kBlocks}};
    REQUIRE(index.attach(1, 1));
    const MemoryUse empty = index.memory();
    const auto store = [&](std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t at = from; at < to; at += 1'000) {
            Event e = heads(at, at + 1'000);
            e.tokens = tokens_of(1'000, static_cast<std::uint32_t>(at));
            REQUIRE(test::apply(index, 1, 0, {e}));
        }
    };
    store(0, kBlocks);
    const MemoryUse full = index.memory();
    CHECK((full.total() - empty.total()) / kBlocks < 60);
    store(kBlocks, 2 * kBlocks);
    CHECK(stats_of(index, 1).evictions == kBlocks);
    CHECK(index.memory().total() < full.total() * 13 / 10);
    REQUIRE(test::apply(index, 1, 0, {cleared()}));
    CHECK(index.memory().total() < empty.total() + full.total() / 10);
}

TEST_SUITE_END();
