#include "core/tokens/word_cache.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

using namespace sluice::tokens;

namespace {

using Ids = std::vector<TokenId>;

WordCache::SmallKey key_of(const std::string& word) {
    return WordCache::small_key(word.data(), static_cast<std::uint32_t>(word.size()), word.size());
}

Ids find(const WordCache& cache, const std::string& word) {
    Ids ids(WordCache::kLargeIds);
    const std::size_t count =
        word.size() <= WordCache::kSmallBytes
            ? cache.find(key_of(word), WordCache::hash_of(key_of(word)), ids.data())
            : cache.find(word, WordCache::hash_of(word), ids.data());
    ids.resize(count);
    return ids;
}

void put(WordCache& cache, const std::string& word, const Ids& ids) {
    if (word.size() <= WordCache::kSmallBytes) {
        cache.put(key_of(word), WordCache::hash_of(key_of(word)), ids.data(), ids.size());
    } else {
        cache.put(word, WordCache::hash_of(word), ids.data(), ids.size());
    }
}

}  // namespace

TEST_SUITE("tokens/word_cache") {
    TEST_CASE("words of every length come back as they went in") {
        for (std::size_t length = 1; length <= WordCache::kLargeBytes; ++length) {
            const std::string word(length, 'w');
            const bool is_small = length <= WordCache::kSmallBytes;
            Ids ids;
            for (std::size_t i = 0; i < (is_small ? WordCache::kSmallIds : WordCache::kLargeIds);
                 ++i) {
                ids.push_back(static_cast<TokenId>(length * 1000 + i));
                WordCache cache(1 << 14U);
                put(cache, word, ids);
                CHECK(find(cache, word) == ids);
            }
        }
    }

    TEST_CASE("a word and the same word with zeros after it are two words") {
        WordCache cache(1 << 16U);
        put(cache, "ab", {1});
        put(cache, std::string("ab\0", 3), {2});
        CHECK(find(cache, "ab") == Ids{1});
        CHECK(find(cache, std::string("ab\0", 3)) == Ids{2});
        CHECK(find(cache, std::string("ab\0\0", 4)).empty());
    }

    TEST_CASE("the key does not depend on what follows the word in memory") {
        const std::string text = "hello, world and more";
        const auto near_end = WordCache::small_key(text.data(), 5, 5);
        const auto inside = WordCache::small_key(text.data(), 5, text.size());
        CHECK(near_end.low == inside.low);
        CHECK(near_end.high == inside.high);
    }

    TEST_CASE("what does not fit is not remembered") {
        WordCache cache(1 << 16U);
        put(cache, "a", {});
        put(cache, "b", {1, 2, 3, 4});
        put(cache, "c", {WordCache::kMaxSmallId + 1});
        put(cache, std::string(WordCache::kLargeBytes + 1, 'd'), {1});
        put(cache, std::string(20, 'e'), Ids(WordCache::kLargeIds + 1, 7));
        CHECK(cache.entries() == 0);
        put(cache, "c", {WordCache::kMaxSmallId});
        CHECK(find(cache, "c") == Ids{WordCache::kMaxSmallId});
    }

    TEST_CASE("the room is fixed and a flood replaces") {
        WordCache cache(1 << 14U);
        const std::size_t bytes = cache.bytes();
        CHECK(bytes <= 1U << 14U);
        for (TokenId i = 0; i < 20000; ++i) {
            put(cache, std::to_string(i), {i});
            put(cache, std::string(20, 'x') + std::to_string(i), {i});
        }
        CHECK(cache.bytes() == bytes);
        CHECK(cache.entries() <= (1U << 13U) / 32 + (1U << 13U) / 128);
        CHECK(find(cache, "19999") == Ids{19999});
        CHECK(WordCache(0).bytes() < 1024);
    }

    TEST_CASE("put_if_free displaces nothing") {
        WordCache cache(0);
        put(cache, "one", {1});
        put(cache, "two", {2});
        cache.put_if_free("three", 3);
        CHECK(find(cache, "one") == Ids{1});
        CHECK(find(cache, "two") == Ids{2});
        CHECK(find(cache, "three").empty());
    }

    TEST_CASE("readers beside writers see a whole entry or none") {
        WordCache cache(0);  // every word wants the same few places
        std::vector<std::string> words;
        for (std::size_t i = 0; i < 8; ++i) {
            words.push_back("w" + std::to_string(i));
            words.push_back(std::string(40, 'l') + std::to_string(i));
        }
        // All ids of word k are k, or k + 100.
        std::vector<std::size_t> torn(3, 0);
        {
            std::vector<std::jthread> threads;
            for (std::size_t t = 0; t < torn.size(); ++t) {
                threads.emplace_back([&, t] {
                    for (std::size_t i = 0; i < 20000; ++i) {
                        const std::size_t k = (i * 7 + t) % words.size();
                        const Ids ids = find(cache, words[k]);
                        for (const TokenId id : ids) {
                            torn[t] += id != ids[0] || id % 100 != k ? 1 : 0;
                        }
                        const std::size_t count = k % 2 == 0 ? WordCache::kSmallIds : 9;
                        put(cache, words[k], Ids(count, static_cast<TokenId>(k + 100 * (i % 2))));
                    }
                });
            }
        }
        CHECK(torn == std::vector<std::size_t>(3, 0));
    }
}
