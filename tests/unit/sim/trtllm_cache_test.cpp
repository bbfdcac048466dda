#include "tests/sim/trtllm/tree_cache.hpp"

#include <doctest/doctest.h>

#include "tests/sim/engine/text_model.hpp"
#include "tests/sim/support/json.hpp"

using namespace sluice::sim;
using namespace sluice::sim::trtllm;

namespace {

const TextModel& model() {
    static const auto m = TextModel::bytes();
    return *m;
}

// A cache with blocks of four tokens, driven as an engine drives it.
struct World {
    explicit World(CacheOptions options = {}, std::size_t ring_size = 100)
        : ring(ring_size, 1), cache(small(options), ring, std::nullopt) {}

    static CacheOptions small(CacheOptions o) {
        o.tokens_per_block = 4;
        o.pools.front().window = 64;
        return o;
    }
    static CacheOptions of(std::uint64_t blocks, std::uint64_t host = 0) {
        CacheOptions o;
        o.blocks = blocks;
        o.host_blocks = host;
        return o;
    }

    // Runs a prompt with so many answer tokens; the number of prompt tokens found.
    std::uint32_t run(std::vector<TokenId> prompt, std::uint32_t answer = 1,
                      GenerateRequest with = {}) {
        with.prompt = std::move(prompt);
        Sequence s(with, Generator(model(), {}, with.prompt, 0, 0), {}, 0);
        const auto admitted = cache.admit(s, 1000);
        REQUIRE(admitted);
        s.computed = admitted->cached;
        s.is_running = true;
        for (std::uint32_t made = 0; made < answer; ++made) {
            REQUIRE(cache.grow(s, s.size()));
            cache.computed(s, s.size());
            cache.publish();
            s.computed = s.size();
            s.tokens.push_back(100 + made);
        }
        s.is_done = true;
        cache.release(s);
        return admitted->cached;
    }

    std::vector<json::Value> events() {
        std::vector<json::Value> out;
        for (const std::string& text : ring.take()) {
            auto parsed = json::parse(text);
            out.push_back(std::get<json::Value>(std::move(parsed)));
        }
        return out;
    }

    std::vector<std::string> types() {
        std::vector<std::string> out;
        for (const json::Value& e : events()) {
            out.emplace_back(e.get("data")->text_of("type"));
        }
        return out;
    }

    EventRing ring;
    TreeCache cache;
};

std::vector<TokenId> ids(TokenId first, std::size_t n) {
    std::vector<TokenId> out;
    for (std::size_t i = 0; i < n; ++i) {
        out.push_back(first + static_cast<TokenId>(i));
    }
    return out;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a prompt finds the full blocks before its last token and no more") {
    World w;
    CHECK(w.run(ids(1, 9)) == 0);
    CHECK(w.run(ids(1, 9)) == 8);
    CHECK(w.run(ids(1, 8)) == 4);  // the last token is always computed
    CHECK(w.run(ids(1, 5)) == 4);
    CHECK(w.run(ids(1, 4)) == 0);
}

TEST_CASE("created comes with the first iteration, stored after the prompt, the tail at the end") {
    World w;
    CHECK(w.types().empty());
    w.run(ids(1, 9), 3);
    const auto events = w.events();
    REQUIRE(events.size() == 3);
    CHECK(events[0].get("data")->text_of("type") == "created");
    const json::Value& stored = *events[1].get("data");
    CHECK(stored.get("parent_hash") == nullptr);
    CHECK(stored.get("blocks")->array()->size() == 2);
    // Prompt and answer without the last token: 9 + 3 - 1 = 11 tokens, so three are left over.
    const json::Value& tail = *events[2].get("data");
    CHECK(tail.get("parent_hash") != nullptr);
    const json::Array& blocks = *tail.get("blocks")->array();
    REQUIRE(blocks.size() == 1);
    CHECK(blocks[0].get("tokens")->array()->size() == 3);
    for (std::size_t i = 0; i < events.size(); ++i) {
        CHECK(*events[i].get("event_id")->integer() == static_cast<std::int64_t>(i));
    }
}

TEST_CASE("only new blocks are announced, the last known one is their parent") {
    World w;
    w.run(ids(1, 9));
    w.events();
    auto longer = ids(1, 8);
    const auto other = ids(200, 5);
    longer.insert(longer.end(), other.begin(), other.end());
    w.run(longer);
    const auto events = w.events();
    REQUIRE(events.size() == 2);
    CHECK(events[0].get("data")->get("blocks")->array()->size() == 1);
    CHECK(events[0].get("data")->get("parent_hash") != nullptr);
}

TEST_CASE("what is evicted is removed, the least recently used leaf first") {
    World w(World::of(4));
    w.run(ids(1, 9));   // two full blocks and a tail
    w.run(ids(50, 5));  // one full block and a tail: two blocks in use, one must go
    w.events();
    CHECK(w.run(ids(1, 9)) == 8);  // the tail went, not what it hung on
    CHECK(w.run(ids(50, 5)) == 4);
}

TEST_CASE("evictions of one iteration are one event, numbered when it is sent") {
    World w(World::of(4));
    w.run(ids(1, 9));
    w.run(ids(50, 5));
    w.events();
    w.run(ids(90, 13));  // takes every block
    const auto events = w.events();
    REQUIRE(events.size() >= 2);
    CHECK(events[0].get("data")->text_of("type") == "removed");
    CHECK(events[0].get("data")->get("block_hashes")->array()->size() == 4);
    CHECK(events[1].get("data")->text_of("type") == "stored");
    CHECK(*events[1].get("event_id")->integer() == *events[0].get("event_id")->integer() + 1);
}

TEST_CASE("with a host level evictions move blocks there, and a hit brings them back") {
    World w(World::of(4, 8));
    w.run(ids(1, 9));
    w.run(ids(50, 13));
    const auto moved = w.types();
    CHECK(std::count(moved.begin(), moved.end(), "updated") == 3);
    CHECK(std::count(moved.begin(), moved.end(), "removed") == 0);
    CHECK(w.run(ids(1, 9)) == 8);
    const auto back = w.events();
    int onboarded = 0;
    for (const json::Value& e : back) {
        const json::Value* level = e.get("data")->get("cache_level");
        onboarded += level != nullptr && *level->get("new_value")->integer() == 0 ? 1 : 0;
    }
    CHECK(onboarded == 3);  // both hits, and the tail that the answer makes again
}

TEST_CASE("a full ring loses its oldest events, and only the numbers tell") {
    World w({}, 2);
    w.run(ids(1, 9));
    w.run(ids(50, 9));
    const auto events = w.events();
    REQUIRE(events.size() == 2);
    CHECK(*events[0].get("event_id")->integer() > 0);
    CHECK(w.ring.overflowed() > 0);
}

TEST_CASE("without reuse nothing is found and nothing said") {
    CacheOptions o;
    o.reuses_blocks = false;
    World w(o);
    CHECK(w.run(ids(1, 9)) == 0);
    CHECK(w.run(ids(1, 9)) == 0);
    CHECK(w.types().empty());
}

TEST_CASE("a salt and an adapter each have their own blocks") {
    World w;
    GenerateRequest salted;
    salted.salt = "tenant";
    const Lora lora{7, "a", ""};
    GenerateRequest adapted;
    adapted.lora = &lora;
    w.run(ids(1, 9));
    CHECK(w.run(ids(1, 9), 1, salted) == 0);
    CHECK(w.run(ids(1, 9), 1, adapted) == 0);
    CHECK(w.run(ids(1, 9), 1, salted) == 8);
    CHECK(w.run(ids(1, 9), 1, adapted) == 8);
    CHECK(w.run(ids(1, 9)) == 8);
}

TEST_CASE("old builds store what was generated only at the end") {
    CacheOptions o;
    o.era = Era::V1_0;
    World w(o);
    w.run(ids(1, 5), 9);
    CHECK(w.types() == Words{"created", "stored", "stored"});
    World now;
    now.run(ids(1, 5), 9);
    CHECK(now.types() == Words{"created", "stored", "stored", "stored", "stored"});
}

TEST_CASE("each window has its pool, and the shortest match of all counts") {
    CacheOptions o;
    o.pools = {{64, 0}, {8, 1}};
    World w(o);
    w.run(ids(1, 9));
    const auto events = w.events();
    REQUIRE(events.size() == 6);
    CHECK(*events[0].get("window_size")->integer() == 64);
    CHECK(*events[1].get("window_size")->integer() == 8);
    CHECK(w.run(ids(1, 9)) == 8);
}

TEST_CASE("the beginning of a block counts as cached only where asked for") {
    CacheOptions o;
    o.reuses_partial = true;
    World w(o);
    w.run(ids(1, 13));
    CHECK(w.run(ids(1, 7)) == 6);
    World plain;
    plain.run(ids(1, 13));
    CHECK(plain.run(ids(1, 7)) == 4);
}

TEST_CASE("a cache that is emptied says so block by block") {
    World w;
    w.run(ids(1, 9));
    w.events();
    CHECK(w.cache.reset());
    CHECK(w.types() == Words{"removed"});
    CHECK(w.run(ids(1, 9)) == 0);
}
