#include "core/tokens/segment_cache.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace sluice::tokens;

namespace {

void put(SegmentCache& cache, const std::string& text, const std::vector<TokenId>& ids,
         std::uint64_t salt = 0) {
    cache.put(SegmentCache::key_of(text, salt), text, salt, ids.data(), ids.size());
}
SegmentCache::Ids find(SegmentCache& cache, const std::string& text, std::uint64_t salt = 0) {
    return cache.find(SegmentCache::key_of(text, salt), text, salt);
}

}  // namespace

TEST_SUITE("tokens/segment_cache") {
    TEST_CASE("a segment is known by its text and its salt") {
        SegmentCache cache(1 << 20U);
        put(cache, "hello", {1, 2});
        put(cache, "hello", {3}, 1);
        REQUIRE(find(cache, "hello") != nullptr);
        CHECK(*find(cache, "hello") == std::vector<TokenId>{1, 2});
        CHECK(*find(cache, "hello", 1) == std::vector<TokenId>{3});
        CHECK(find(cache, "hello!") == nullptr);
    }

    TEST_CASE("two texts of one hash are not confused") {
        SegmentCache cache(1 << 20U);
        const std::vector<TokenId> ids = {1};
        cache.put(42, "first", 0, ids.data(), 1);
        CHECK(cache.find(42, "second", 0) == nullptr);
        CHECK(cache.find(42, "first", 0) != nullptr);
        cache.put(42, "second", 0, ids.data(), 1);
        CHECK(cache.find(42, "first", 0) == nullptr);
        CHECK(cache.use().entries == 1);
    }

    TEST_CASE("the least recently used goes first and the bound holds") {
        constexpr std::size_t kBound = 8 * 4096;
        SegmentCache cache(kBound);
        // One shard: the high bits of the key choose it.
        const std::string text(200, 'x');
        const std::vector<TokenId> ids(50, 1);
        for (std::uint64_t key = 0; key < 100; ++key) {
            cache.put(key, text, 0, ids.data(), ids.size());
            CHECK(cache.find(0, text, 0) != nullptr);  // kept alive by being asked for
            CHECK(cache.use().bytes <= kBound / SegmentCache::kShards);
        }
        CHECK(cache.find(99, text, 0) != nullptr);
        CHECK(cache.find(50, text, 0) == nullptr);
        CHECK(cache.use().entries < 12);
    }

    TEST_CASE("what is too large for its shard is not kept") {
        SegmentCache cache(8 * 4096);
        CHECK(cache.accepts(500));
        CHECK(!cache.accepts(4096));
        put(cache, std::string(500, 'x'), std::vector<TokenId>(500, 1));
        CHECK(cache.use().entries == 0);
        CHECK(!SegmentCache(0).accepts(1));
    }

    TEST_CASE("ids stay valid while they are held") {
        SegmentCache cache(8 * 4096);
        put(cache, "held", {5, 6});
        const SegmentCache::Ids ids = find(cache, "held");
        for (int i = 0; i < 200; ++i) {
            put(cache, std::string(300, 'x') + std::to_string(i), {1});
        }
        CHECK(find(cache, "held") == nullptr);
        CHECK(*ids == std::vector<TokenId>{5, 6});
    }
}
