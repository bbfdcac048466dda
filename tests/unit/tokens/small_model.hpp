// A tokenizer.json of a few characters, with parts a test can replace.
#pragma once
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "core/tokens/tokenizer.hpp"

namespace sluice::test {

struct SmallModel {
    std::string normalizer = "null";
    std::string pre_tokenizer = "null";
    std::string post_processor = "null";
    std::string added = "[]";
    // Ids 0..19 are a to m, _, and what they merge into.
    std::string vocab =
        R"({"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8,"j":9,"k":10,"l":11,"m":12,)"
        R"("_":13,"ab":14,"bc":15,"abc":16,"_a":17,"cd":18,"abcd":19})";
    std::string merges = "[]";
    std::string options;  // further members of the model, each with a comma after it
    std::string config;   // tokenizer_config.json, none if empty

    std::string text() const {
        return R"({"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer +
               R"(,"post_processor":)" + post_processor + R"(,"added_tokens":)" + added +
               R"(,"model":{"type":"BPE",)" + options + R"("vocab":)" + vocab + R"(,"merges":)" +
               merges + "}}";
    }
    Result<std::shared_ptr<const tokens::Tokenizer>> parse() const {
        return tokens::Tokenizer::parse(text(), config, {});
    }
    std::shared_ptr<const tokens::Tokenizer> make() const {
        auto parsed = parse();
        REQUIRE_MESSAGE(parsed.ok(), (parsed ? std::string() : parsed.error().what));
        return *parsed;
    }
};

}  // namespace sluice::test
