// The golden ids of tests/vectors/tokens, made with the reference core from the models' own files.
//
// Those files are fetched (scripts/fetch-tokenizers); SLUICE_TOKENIZERS names the folder. Without
// them these cases say so and pass; the mini tokenizer of this repository is always tested.
#include <doctest/doctest.h>
#include <simdjson.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/tokens/tokenizer.hpp"

using namespace sluice;
using tokens::TokenId;
using tokens::Tokenizer;

namespace {

struct Line {
    std::string id;
    std::string text;
    bool add_special_tokens = false;
    std::vector<TokenId> ids;
    std::string scheme;  // llama2_metaspace only
    bool splits = false;
};

std::vector<Line> read_lines(const std::string& model) {
    const auto file = simdjson::padded_string::load("tests/vectors/tokens/" + model + ".jsonl");
    REQUIRE(file.error() == simdjson::SUCCESS);
    simdjson::dom::parser parser;
    simdjson::dom::document_stream stream;
    REQUIRE(parser.parse_many(file.value_unsafe()).get(stream) == simdjson::SUCCESS);
    std::vector<Line> lines;
    for (const auto& document : stream) {
        Line line;
        line.id = std::string_view(document["id"]);
        line.text = std::string_view(document["text"]);
        line.add_special_tokens = document["add_special_tokens"];
        for (const auto id : simdjson::dom::array(document["ids"])) {
            line.ids.push_back(static_cast<TokenId>(std::uint64_t(id)));
        }
        simdjson::dom::element metaspace;
        if (document["metaspace"].get(metaspace) == simdjson::SUCCESS) {
            line.scheme = std::string_view(metaspace["prepend_scheme"]);
            line.splits = metaspace["split"];
        }
        lines.push_back(std::move(line));
    }
    return lines;
}

// The folder of a model's files, empty if they have not been fetched.
std::filesystem::path folder_of(const std::string& model) {
    const char* const root = std::getenv("SLUICE_TOKENIZERS");
    std::filesystem::path folder(root != nullptr ? root : SLUICE_TOKENIZERS_DEFAULT);
    folder /= model;
    if (std::filesystem::exists(folder / "tokenizer.json")) {
        return folder;
    }
    MESSAGE("skipped: no " << folder.string()
                           << "; fetch it with scripts/fetch-tokenizers or set SLUICE_TOKENIZERS");
    return {};
}

void check_line(const Tokenizer& tokenizer, const Line& line) {
    CAPTURE(line.id);
    std::vector<TokenId> ids;
    const Status status = tokenizer.encode(line.text, line.add_special_tokens, ids);
    REQUIRE(status.ok());
    CHECK(ids == line.ids);
}

void check_model(const std::filesystem::path& folder, const std::string& model,
                 std::size_t lines_expected) {
    const auto tokenizer =
        Tokenizer::load(folder / "tokenizer.json", folder / "tokenizer_config.json");
    REQUIRE_MESSAGE(tokenizer.ok(), (tokenizer ? std::string() : tokenizer.error().what));
    const std::vector<Line> lines = read_lines(model);
    CHECK(lines.size() == lines_expected);
    // The second round is answered from the caches.
    for (int round = 0; round < 2; ++round) {
        for (const Line& line : lines) {
            check_line(**tokenizer, line);
        }
    }
}

void check_fetched(const std::string& model, std::size_t lines_expected) {
    if (const auto folder = folder_of(model); !folder.empty()) {
        check_model(folder, model, lines_expected);
    }
}

}  // namespace

TEST_SUITE("tokens/vectors") {
    TEST_CASE("the mini tokenizer gives the reference's ids") {
        check_model("tests/vectors/tokenizers/mini", "mini", 394);
    }
    TEST_CASE("Qwen 3 gives the reference's ids") {
        check_fetched("qwen3", 394);
    }
    TEST_CASE("Llama 3.1 gives the reference's ids") {
        check_fetched("llama3_1", 394);
    }
    TEST_CASE("gpt-oss gives the reference's ids") {
        check_fetched("gptoss", 394);
    }
    TEST_CASE("DeepSeek V3 gives the reference's ids") {
        check_fetched("deepseek_v3", 394);
    }
    TEST_CASE("Gemma 3 gives the reference's ids") {
        check_fetched("gemma3", 394);
    }
    TEST_CASE("Llama 2 gives the reference's ids") {
        check_fetched("llama2", 394);
    }

    TEST_CASE("Metaspace in all its ways gives the reference's ids") {
        const auto folder = folder_of("llama2");
        if (folder.empty()) {
            return;
        }
        auto loaded = simdjson::padded_string::load((folder / "tokenizer.json").string());
        REQUIRE(loaded.error() == simdjson::SUCCESS);
        const std::string file{std::string_view(loaded.value_unsafe())};
        simdjson::dom::parser parser;
        const simdjson::dom::element root = parser.parse(file);
        std::map<std::string, std::shared_ptr<const Tokenizer>> made;
        for (const Line& line : read_lines("llama2_metaspace")) {
            auto& tokenizer = made[line.scheme + (line.splits ? "+" : "-")];
            if (tokenizer == nullptr) {
                std::string text = "{";
                for (const auto [key, value] : simdjson::dom::object(root)) {
                    if (key != "normalizer" && key != "pre_tokenizer") {
                        text += "\"" + std::string(key) + "\":" + simdjson::minify(value) + ",";
                    }
                }
                text +=
                    R"("normalizer":null,"pre_tokenizer":{"type":"Metaspace","replacement":"▁",)"
                    R"("prepend_scheme":")" +
                    line.scheme + R"(","split":)" + (line.splits ? "true" : "false") + "}}";
                auto parsed = Tokenizer::parse(text, {}, {});
                REQUIRE_MESSAGE(parsed.ok(), (parsed ? std::string() : parsed.error().what));
                tokenizer = *parsed;
            }
            check_line(*tokenizer, line);
        }
        CHECK(made.size() == 4);
    }
}
