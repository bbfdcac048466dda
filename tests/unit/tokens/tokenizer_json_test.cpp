#include "core/tokens/tokenizer_json.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/tokens/small_model.hpp"

using namespace sluice;
using test::SmallModel;
using tokens::TokenId;
using Ids = std::vector<TokenId>;

namespace {

Ids encode(const tokens::Tokenizer& tokenizer, std::string_view text) {
    Ids ids;
    REQUIRE(tokenizer.encode(text, false, ids).ok());
    return ids;
}

}  // namespace

TEST_SUITE("tokens/tokenizer_json") {
    TEST_CASE("what this program does not have is refused by name") {
        struct Row {
            const char* name;
            std::string SmallModel::* part;
            const char* value;
            const char* says;
        };
        for (const Row& row : {
                 Row{"normalizer", &SmallModel::normalizer, R"({"type":"NFKC"})", "type NFKC"},
                 Row{"nested", &SmallModel::normalizer,
                     R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Strip"}]})",
                     "type Strip"},
                 Row{"regex replace", &SmallModel::normalizer,
                     R"({"type":"Replace","pattern":{"Regex":" +"},"content":"_"})", "Regex"},
                 Row{"pre-tokenizer", &SmallModel::pre_tokenizer, R"({"type":"Digits"})",
                     "type Digits"},
                 Row{"behavior", &SmallModel::pre_tokenizer,
                     R"({"type":"Split","pattern":{"String":" "},"behavior":"Contiguous"})",
                     "behavior Contiguous"},
                 Row{"pattern", &SmallModel::pre_tokenizer,
                     R"({"type":"Split","pattern":{"Regex":"(?<=a)b"},"behavior":"Isolated"})",
                     "group is not supported"},
                 Row{"after ByteLevel", &SmallModel::pre_tokenizer,
                     R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},)"
                     R"({"type":"Split","pattern":{"String":" "},"behavior":"Isolated"}]})",
                     "Split after ByteLevel"},
                 Row{"post-processor", &SmallModel::post_processor, R"({"type":"BertProcessing"})",
                     "type BertProcessing"},
                 Row{"dropout", &SmallModel::options, R"("dropout":0.1,)", "dropout"},
                 Row{"suffix", &SmallModel::options, R"("end_of_word_suffix":"</w>",)",
                     "end_of_word_suffix"},
             }) {
            CAPTURE(row.name);
            SmallModel model;
            model.*row.part = row.value;
            const auto parsed = model.parse();
            REQUIRE(!parsed.ok());
            CHECK(parsed.error().code == Code::Unsupported);
            CHECK_MESSAGE(parsed.error().what.find(row.says) != std::string::npos,
                          parsed.error().what);
        }
    }

    TEST_CASE("a model of another kind is refused") {
        const auto parsed =
            tokens::Tokenizer::parse(R"({"model":{"type":"Unigram","vocab":[]}})", {}, {});
        REQUIRE(!parsed.ok());
        CHECK(parsed.error().what == "tokenizer.json: model: type Unigram");
    }

    TEST_CASE("files that contradict themselves are refused with the place") {
        struct Row {
            const char* name;
            std::string SmallModel::* part;
            const char* value;
            const char* says;
        };
        for (const Row& row : {
                 Row{"one token merge", &SmallModel::merges, R"(["a"])", "merge 0"},
                 Row{"three token merge", &SmallModel::merges, R"(["a b","a b c"])", "merge 1"},
                 Row{"merge of strangers", &SmallModel::merges, R"([["a","z"]])", "merge 0"},
                 Row{"merge into nothing", &SmallModel::merges, R"([["a","d"]])", "merge 0"},
                 Row{"id twice", &SmallModel::vocab, R"({"a":0,"b":0})", "two tokens have id 0"},
                 Row{"huge id", &SmallModel::vocab, R"({"a":4294967295})", "token id"},
                 Row{"negative id", &SmallModel::vocab, R"({"a":-1})", "token id"},
                 Row{"unknown unk", &SmallModel::options, R"("unk_token":"<unk>",)", "unk_token"},
                 Row{"flag", &SmallModel::options, R"("byte_fallback":"yes",)", "byte_fallback"},
                 Row{"added", &SmallModel::added, R"([{"id":1}])", "content"},
                 Row{"pattern", &SmallModel::pre_tokenizer,
                     R"({"type":"Split","pattern":{"String":""},"behavior":"Isolated"})", "empty"},
                 Row{"scheme", &SmallModel::pre_tokenizer,
                     R"({"type":"Metaspace","replacement":"ab","prepend_scheme":"always"})",
                     "one character"},
                 Row{"template", &SmallModel::post_processor,
                     R"({"type":"TemplateProcessing","single":[],"special_tokens":{}})",
                     "sequence A"},
                 Row{"config", &SmallModel::config, "[]", "tokenizer_config.json"},
                 Row{"config syntax", &SmallModel::config, "{", "tokenizer_config.json"},
             }) {
            CAPTURE(row.name);
            SmallModel model;
            model.*row.part = row.value;
            const auto parsed = model.parse();
            REQUIRE(!parsed.ok());
            CHECK_MESSAGE(parsed.error().what.find(row.says) != std::string::npos,
                          parsed.error().what);
        }
        for (const char* text : {"", "{", "[]", "{}", R"({"model":null})", R"({"model":{}})"}) {
            CAPTURE(text);
            CHECK(!tokens::Tokenizer::parse(text, {}, {}).ok());
        }
    }

    TEST_CASE("merges are read as strings and as pairs, and apply by rank") {
        for (const char* merges :
             {R"(["b c","a b","a bc"])", R"([["b","c"],["a","b"],["a","bc"]])"}) {
            SmallModel model;
            model.merges = merges;
            // bc goes before ab, so abc is a+bc.
            CHECK(encode(*model.make(), "abcab") == Ids{16, 14});
        }
    }

    TEST_CASE("ignore_merges takes a split that is in the vocabulary as it is") {
        SmallModel model;
        model.merges = R"(["c d"])";
        CHECK(encode(*model.make(), "abcd") == Ids{0, 1, 18});
        model.options = R"("ignore_merges":true,)";
        CHECK(encode(*model.make(), "abcd") == Ids{19});
        CHECK(encode(*model.make(), "abcda") == Ids{0, 1, 18, 0});
    }

    TEST_CASE("unknown characters are dropped, unknown, fused or bytes, as the model says") {
        SmallModel model;
        CHECK(encode(*model.make(), "aXYb") == Ids{0, 1});
        model.options = R"("unk_token":"m",)";
        CHECK(encode(*model.make(), "aXYbZ") == Ids{0, 12, 12, 1, 12});
        model.options = R"("unk_token":"m","fuse_unk":true,)";
        CHECK(encode(*model.make(), "aXYbZ") == Ids{0, 12, 1, 12});
        model.options = R"("unk_token":"m","fuse_unk":true,"byte_fallback":true,)";
        model.vocab = R"({"a":0,"m":12,"<0xC3>":30,"<0xA9>":31,"<0x58>":32})";
        CHECK(encode(*model.make(), "a\u00E9Xa") == Ids{0, 30, 31, 32, 0});
        // One byte of U+00E8 has no token.
        CHECK(encode(*model.make(), "a\u00E8a") == Ids{0, 12, 0});
    }

    TEST_CASE("splits are isolated, removed or glued as the behavior says") {
        SmallModel model;
        model.merges = R"(["a b","b c"])";
        const auto with = [&](const char* behavior, const char* invert) {
            model.pre_tokenizer = std::string(R"({"type":"Split","pattern":{"String":"b"},)") +
                                  R"("behavior":")" + behavior + R"(","invert":)" + invert + "}";
            return encode(*model.make(), "abcbb");
        };
        CHECK(with("Isolated", "false") == Ids{0, 1, 2, 1, 1});
        CHECK(with("Removed", "false") == Ids{0, 2});
        CHECK(with("Removed", "true") == Ids{1, 1, 1});
        CHECK(with("MergedWithPrevious", "false") == Ids{14, 2, 1, 1});
    }

    TEST_CASE("a pattern that is not known goes to the general engine with the same meaning") {
        SmallModel model;
        model.merges = R"(["a b","b c"])";
        model.pre_tokenizer =
            R"({"type":"Split","pattern":{"Regex":"\\p{L}{2}|(?i:C)+"},"behavior":"Isolated"})";
        CHECK(encode(*model.make(), "abcc") == Ids{14, 2, 2});
        CHECK(encode(*model.make(), "bcab") == Ids{15, 14});
    }

    TEST_CASE("ByteLevel puts a space in front where it is asked to") {
        SmallModel model;
        model.vocab = R"({"a":0,"b":1,"Ġ":2,"Ġa":3,"Ã":4,"©":5})";
        model.merges = R"([["Ġ","a"]])";
        model.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true})";
        CHECK(encode(*model.make(), "a a") == Ids{3, 3});
        CHECK(encode(*model.make(), " a\u00E9") == Ids{3, 4, 5});
        model.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
        CHECK(encode(*model.make(), "a a") == Ids{0, 3});
    }
}
