#include "core/tokens/tokenizer.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/tokens/small_model.hpp"

using namespace sluice;
using tokens::EncodeStats;
using tokens::TokenId;
using tokens::Tokenizer;
using Ids = std::vector<TokenId>;

namespace {

std::shared_ptr<const Tokenizer> load_mini(const Tokenizer::Options& options = {}) {
    const std::filesystem::path folder = "tests/vectors/tokenizers/mini";
    auto loaded =
        Tokenizer::load(folder / "tokenizer.json", folder / "tokenizer_config.json", options);
    REQUIRE_MESSAGE(loaded.ok(), (loaded ? std::string() : loaded.error().what));
    return *loaded;
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, bool add_special_tokens = false) {
    Ids ids;
    const Status status = tokenizer.encode(text, add_special_tokens, ids);
    REQUIRE_MESSAGE(status.ok(), (status ? std::string() : status.error().what));
    return ids;
}

// A text of `bytes` letters and spaces that does not repeat soon.
std::string words(std::size_t bytes, unsigned seed) {
    std::string text;
    while (text.size() < bytes) {
        seed = seed * 1664525U + 1013904223U;
        text += seed >> 29U == 0 ? ' ' : static_cast<char>('a' + (seed >> 24U) % 26);
    }
    return text;
}

}  // namespace

TEST_SUITE("tokens/tokenizer") {
    TEST_CASE("ids are appended and an empty text adds none") {
        const auto tokenizer = load_mini();
        Ids ids = {7};
        REQUIRE(tokenizer->encode("", false, ids).ok());
        CHECK(ids == Ids{7});
        REQUIRE(tokenizer->encode("a", false, ids).ok());
        CHECK(ids == Ids{7, *tokenizer->id_of("a")});
    }

    TEST_CASE("special tokens in the text are found and named ones are known to templates") {
        const auto tokenizer = load_mini();
        CHECK(encode(*tokenizer, "<|im_start|><|im_end|>") ==
              Ids{*tokenizer->id_of("<|im_start|>"), *tokenizer->id_of("<|im_end|>")});
        CHECK(tokenizer->special_tokens().at("eos_token") == "<|im_end|>");
        // Written as an object in the file.
        CHECK(tokenizer->special_tokens().at("pad_token") == "<|endoftext|>");
        CHECK(tokenizer->special_tokens().count("bos_token") == 0);
        CHECK(tokenizer->vocab_size() == 1259);
        CHECK(tokenizer->max_token_chars() == 13);
        CHECK(tokenizer->token_of(*tokenizer->id_of("<|im_end|>")) == "<|im_end|>");
        CHECK(tokenizer->token_of(99999).empty());
        CHECK(!tokenizer->id_of("no such token").has_value());
    }

    TEST_CASE("text that is not UTF-8 is refused with its place and leaves the output alone") {
        const auto tokenizer = load_mini();
        struct Row {
            const char* name;
            std::string text;
            const char* where;
        };
        for (const Row& row :
             {Row{"lone continuation", "abc\x80", "byte 3"}, Row{"cut short", "\xE4\xB8", "byte 0"},
              Row{"overlong", "a\xC0\x80", "byte 1"}, Row{"surrogate", "\xED\xA0\x80", "byte 0"},
              Row{"too large", "ab\xF5\x80\x80\x80", "byte 2"}}) {
            CAPTURE(row.name);
            Ids ids = {1, 2};
            const Status status = tokenizer->encode(row.text, false, ids);
            REQUIRE(!status.ok());
            CHECK(status.error().code == Code::Invalid);
            CHECK(status.error().what.find(row.where) != std::string::npos);
            CHECK(ids == Ids{1, 2});
        }
    }

    TEST_CASE("a segment seen before is answered from the cache with the same ids") {
        const auto tokenizer = load_mini();
        const std::string turn =
            "<|im_start|>user\nWhat is the capital of France, and why?<|im_end|>";
        EncodeStats stats;
        Ids first;
        REQUIRE(tokenizer->encode(turn, false, first, &stats).ok());
        CHECK(stats.segments == 1);
        CHECK(stats.cached_segments == 0);
        Ids second;
        REQUIRE(tokenizer->encode(turn + turn, false, second, &stats).ok());
        CHECK(stats.segments == 3);
        CHECK(stats.cached_segments == 2);
        Ids twice = first;
        twice.insert(twice.end(), first.begin(), first.end());
        CHECK(second == twice);
    }

    TEST_CASE("the caches keep to their bounds, whatever is encoded") {
        const Tokenizer::Options options{256 << 10U, 64 << 10U};
        const auto tokenizer = load_mini(options);
        for (unsigned i = 0; i < 2000; ++i) {
            (void)encode(*tokenizer, words(64 + i, i));
        }
        (void)encode(*tokenizer, words(1 << 20U, 1));
        const Tokenizer::CacheUse use = tokenizer->cache_use();
        CHECK(use.segment_bytes <= options.segment_cache_bytes);
        CHECK(use.segment_bytes > options.segment_cache_bytes / 2);
        CHECK(use.segment_entries > 0);
        CHECK(use.word_bytes <= options.word_cache_bytes);
        CHECK(use.word_entries > 100);
    }

    TEST_CASE("without room for caches the ids are the same") {
        const auto with = load_mini();
        const auto without = load_mini({0, 0});
        for (unsigned i = 0; i < 50; ++i) {
            const std::string text = words(300, i) + "\n  " + std::to_string(i) + "!?";
            CHECK(encode(*with, text) == encode(*without, text));
            CHECK(encode(*with, text) == encode(*without, text));
        }
        CHECK(without->cache_use().segment_entries == 0);
    }

    TEST_CASE("one word of a megabyte costs no more than its share") {
        const auto tokenizer = load_mini({0, 0});
        const auto seconds = [&](std::size_t bytes) {
            std::string word = words(bytes, 3);
            std::erase(word, ' ');
            const auto begin = std::chrono::steady_clock::now();
            const Ids ids = encode(*tokenizer, word);
            CHECK(ids.size() > bytes / 13);
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        };
        // A quadratic merge takes hours for this; the bound leaves room for sanitizers.
        CHECK(seconds(1 << 20U) < 20);
    }

    TEST_CASE("threads share one tokenizer and its caches") {
        // Small caches, so that entries are replaced under the readers all the time.
        const auto tokenizer = load_mini({64 << 10U, 4 << 10U});
        std::vector<std::string> texts;
        std::vector<Ids> want;
        const auto alone = load_mini({0, 0});
        for (unsigned i = 0; i < 64; ++i) {
            texts.push_back("<|im_start|>" + words(200 + i * 7, i) + " averyveryverylongword" +
                            std::to_string(i));
            want.push_back(encode(*alone, texts.back()));
        }
        std::vector<int> wrong(4, 0);
        {
            std::vector<std::jthread> threads;
            for (std::size_t t = 0; t < wrong.size(); ++t) {
                threads.emplace_back([&, t] {
                    Ids ids;
                    for (std::size_t i = 0; i < 1500; ++i) {
                        const std::size_t k = (i * (2 * t + 1)) % texts.size();
                        ids.clear();
                        const bool ok = tokenizer->encode(texts[k], false, ids).ok();
                        wrong[t] += ok && ids == want[k] ? 0 : 1;
                    }
                });
            }
        }
        CHECK(wrong == std::vector<int>(4, 0));
    }

    TEST_CASE("a missing tokenizer.json is an error that names it, a missing config is none") {
        const auto missing = Tokenizer::load("tests/no/such/tokenizer.json", "");
        REQUIRE(!missing.ok());
        CHECK(missing.error().code == Code::Io);
        CHECK(missing.error().what.find("tests/no/such/tokenizer.json") != std::string::npos);
        const auto plain = Tokenizer::load("tests/vectors/tokenizers/mini/tokenizer.json",
                                           "tests/no/such/tokenizer_config.json");
        REQUIRE(plain.ok());
        CHECK((*plain)->special_tokens().empty());
    }

    TEST_CASE("added tokens are cut out of raw or of normalized text, as each says") {
        test::SmallModel model;
        model.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},)"
                           R"({"type":"Replace","pattern":{"String":" "},"content":"_"}]})";
        model.added = R"([{"id":20,"content":"<x y>","normalized":false},)"
                      R"({"id":21,"content":"b c","normalized":true}])";
        const auto tokenizer = model.make();
        const TokenId mark = *tokenizer->id_of("_");
        const TokenId a = *tokenizer->id_of("a");
        CHECK(encode(*tokenizer, "a<x y>a") == Ids{mark, a, 20, mark, a});
        // Its own content is normalized too: "_b_c", so it is found where the text has that.
        CHECK(encode(*tokenizer, "b c") == Ids{21});
        CHECK(encode(*tokenizer, "a b c a") == Ids{mark, a, 21, mark, a});
    }

    TEST_CASE("the post-processor's template is applied on request only") {
        test::SmallModel model;
        model.added = R"([{"id":20,"content":"<s>","special":true},{"id":21,"content":"</s>"}])";
        model.post_processor =
            R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
            R"({"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],)"
            R"("pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[20],"tokens":["<s>"]},)"
            R"("</s>":{"id":"</s>","ids":[21,20],"tokens":["</s>","<s>"]}}})";
        const auto tokenizer = model.make();
        const TokenId a = *tokenizer->id_of("a");
        CHECK(encode(*tokenizer, "a") == Ids{a});
        CHECK(encode(*tokenizer, "a", true) == Ids{20, a, 21, 20});
        CHECK(encode(*tokenizer, "", true) == Ids{20, 21, 20});
        CHECK(encode(*tokenizer, "<s>a", true) == Ids{20, 20, a, 21, 20});
    }

    TEST_CASE("the configuration's tokens are added and its flags win") {
        test::SmallModel model;
        model.added = R"([{"id":20,"content":"<s>","special":true}])";
        model.config = R"({"model_max_length":1000000000000000019884624838656,"bos_token":"<s>",)"
                       R"("eos_token":{"content":"<end>"},"add_bos_token":true,"unk_token":null,)"
                       R"("added_tokens_decoder":{"20":{"content":"<s>","rstrip":true,)"
                       R"("special":true}},"additional_special_tokens":["<more>"]})";
        const auto tokenizer = model.make();
        const TokenId a = *tokenizer->id_of("a");
        CHECK(encode(*tokenizer, "<s>  a<end><more>") == Ids{20, a, 21, 22});
        CHECK(tokenizer->special_tokens() ==
              std::map<std::string, std::string>{{"bos_token", "<s>"}, {"eos_token", "<end>"}});
    }
}
