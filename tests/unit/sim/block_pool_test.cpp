#include "tests/sim/vllm/block_pool.hpp"

#include <doctest/doctest.h>

using namespace sluice::sim::vllm;

namespace {

Digest digest(std::uint8_t n) {
    Digest d{};
    d[31] = n;
    return d;
}

std::vector<int> removed(BlockPool& pool) {
    std::vector<int> out;
    for (const KvEvent& e : pool.take_events()) {
        if (const auto* r = std::get_if<BlockRemoved>(&e)) {
            out.push_back(r->hash[31]);
        }
    }
    return out;
}

}  // namespace

TEST_SUITE("sim/block_pool") {
    TEST_CASE("content survives until its block is taken, the end of a sequence first") {
        BlockPool pool(6);  // five usable
        const auto a = pool.take(3);
        for (std::uint8_t i = 0; i < 3; ++i) {
            pool.cache(a[i], digest(i + 1));
        }
        pool.release(a);
        CHECK(pool.find(digest(1)) == a[0]);
        CHECK(pool.free() == 5);
        const auto b = pool.take(3);  // two that were never used, then the oldest freed
        CHECK(removed(pool) == std::vector<int>{3});
        CHECK(pool.find(digest(1)));
        CHECK_FALSE(pool.find(digest(3)));
        pool.release(b);
    }

    TEST_CASE("a block without content is taken again before any that has some") {
        BlockPool pool(10);
        const auto a = pool.take(3);
        pool.cache(a[0], digest(1));
        pool.cache(a[1], digest(2));
        pool.release(a);
        CHECK(pool.take(1) == std::vector<BlockId>{a[2]});
    }

    TEST_CASE("use renews: what was touched last is evicted last") {
        BlockPool pool(4);
        const auto a = pool.take(1);
        const auto b = pool.take(1);
        const auto c = pool.take(1);
        pool.cache(a[0], digest(1));
        pool.cache(b[0], digest(2));
        pool.cache(c[0], digest(3));
        pool.release(a);
        pool.release(b);
        pool.release(c);
        pool.touch(a[0]);
        pool.release(a);
        (void)pool.take(3);
        CHECK(removed(pool) == std::vector<int>{2, 3, 1});
    }

    TEST_CASE("each copy of a hash is evicted by an event of its own") {
        BlockPool pool(3);
        const auto a = pool.take(2);
        pool.cache(a[0], digest(7));
        pool.cache(a[1], digest(7));
        pool.release(a);
        CHECK(pool.find(digest(7)) == a[0]);
        (void)pool.take(1);
        CHECK(removed(pool) == std::vector<int>{7});
        CHECK(pool.find(digest(7)));
        (void)pool.take(1);
        CHECK(removed(pool) == std::vector<int>{7});
        CHECK_FALSE(pool.find(digest(7)));
    }

    TEST_CASE("a reset is refused while a request holds blocks") {
        BlockPool pool(4);
        const auto a = pool.take(1);
        pool.cache(a[0], digest(1));
        CHECK_FALSE(pool.reset());
        CHECK(pool.find(digest(1)));
        pool.release(a);
        CHECK(pool.reset());
        CHECK_FALSE(pool.find(digest(1)));
        const auto events = pool.take_events();
        REQUIRE(events.size() == 1);
        CHECK(std::holds_alternative<AllBlocksCleared>(events[0]));
    }
}
