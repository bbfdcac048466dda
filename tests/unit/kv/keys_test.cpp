#include "core/kv/keys.hpp"

#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <set>

using namespace sluice::kv;

TEST_SUITE_BEGIN("kv/keys");

TEST_CASE("only full blocks have keys and each depends on all tokens before it") {
    std::vector<std::uint32_t> tokens(35);
    std::iota(tokens.begin(), tokens.end(), 0U);
    std::vector<Key> keys;
    CHECK(chain(root_key({}, {}), tokens, 16, keys) == 2);
    auto changed = tokens;
    changed[0] = 99;
    std::vector<Key> others;
    chain(root_key({}, {}), changed, 16, others);
    CHECK(keys[0] != others[0]);
    CHECK(keys[1] != others[1]);
    changed = tokens;
    changed[34] = 99;
    others.clear();
    chain(root_key({}, {}), changed, 16, others);
    CHECK(keys == others);
}

TEST_CASE("a chain continued at its parent is the chain made at once") {
    std::vector<std::uint32_t> tokens(64 * 80);
    std::iota(tokens.begin(), tokens.end(), 7U);
    for (const std::uint32_t size : {1U, 16U, 64U, 80U}) {
        CAPTURE(size);
        std::vector<Key> whole;
        chain(root_key("a", "s"), tokens, size, whole);
        std::vector<Key> parts;
        chain(root_key("a", "s"), std::span(tokens).first(size * 3), size, parts);
        chain(parts.back(), std::span(tokens).subspan(size * 3), size, parts);
        CHECK(whole == parts);
        ChainCursor cursor(root_key("a", "s"), tokens, size);
        CHECK(cursor.total() == whole.size());
        std::vector<Key> lazily;
        std::array<Key, 7> some{};
        while (const std::size_t n = cursor.next(some)) {
            lazily.insert(lazily.end(), some.begin(), some.begin() + n);
        }
        CHECK(cursor.left() == 0);
        CHECK(whole == lazily);
    }
}

TEST_CASE("roots differ by LoRA and salt, and one is not taken for the other") {
    const std::set<Key> roots{root_key("", ""),    root_key("a", ""),   root_key("", "a"),
                              root_key("ab", "c"), root_key("a", "bc"), root_key("a", "a"),
                              root_key("abc", ""), root_key("", "abc")};
    CHECK(roots.size() == 8);
}

TEST_CASE("a block size of zero has no blocks and a limit is kept") {
    const std::vector<std::uint32_t> tokens(64, 1);
    std::vector<Key> keys;
    CHECK(chain(1, tokens, 0, keys) == 0);
    CHECK(chain(1, tokens, 16, keys, 3) == 3);
    CHECK(keys.size() == 3);
}

TEST_CASE("the last token of a prompt is never served from cache") {
    struct Row {
        std::size_t tokens;
        std::uint32_t block;
        std::size_t want;
    };
    for (const Row& row : {Row{0, 16, 0}, Row{1, 16, 0}, Row{16, 16, 0}, Row{17, 16, 1},
                           Row{64, 32, 1}, Row{65, 32, 2}, Row{65, 0, 0}}) {
        CAPTURE(row.tokens);
        CHECK(usable_blocks(row.tokens, row.block) == row.want);
    }
}

TEST_SUITE_END();
