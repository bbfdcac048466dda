#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/route/facts.hpp"
#include "core/route/handoff.hpp"
#include "core/route/path.hpp"
#include "core/route/prompt.hpp"
#include "core/route/receipt.hpp"

using namespace sluice;

namespace {

std::string padded(std::string_view text) {
    std::string out(text);
    out.reserve(text.size() + json::kSlack);
    return out;
}

std::string joined(const json::Edits& edits) {
    std::string out;
    for (const std::string_view piece : edits.pieces()) {
        out += piece;
    }
    return out;
}

}  // namespace

TEST_SUITE("route/facts") {
    TEST_CASE("only members of the outermost object count") {
        json::BodyReader reader;
        const std::string text = padded(
            R"({"messages":[{"role":"user","content":"\"model\":\"evil\"","model":"evil"}],"model":"good","stream":true,"cache_salt":"s\u00e9"})");
        const auto body = reader.parse(text);
        REQUIRE(body);
        route::Facts facts;
        CHECK(!route::read_facts("/v1/chat/completions", {}, *body, &reader, facts));
        CHECK(facts.api == route::Api::Chat);
        CHECK(facts.model == "good");
        CHECK(facts.is_stream);
        CHECK(facts.salt == "s\xC3\xA9");
    }

    TEST_CASE("header and body must agree on the model") {
        json::BodyReader reader;
        const std::string text = padded(R"({"model":"a"})");
        const auto body = reader.parse(text);
        REQUIRE(body);
        route::Facts facts;
        const auto refusal = route::read_facts("/v1/completions", "b", *body, &reader, facts);
        REQUIRE(refusal);
        CHECK(refusal->code == "model_conflict");
        CHECK(refusal->status == 400);
        route::Facts same;
        CHECK(!route::read_facts("/v1/completions", "a", *body, &reader, same));
        route::Facts only_header;
        CHECK(!route::read_facts("/v1/models", "b", nullptr, &reader, only_header));
        CHECK(only_header.model == "b");
    }
}

TEST_SUITE("route/path") {
    TEST_CASE("paths are compared as an engine reads them") {
        struct Row {
            const char* path;
            const char* want;
        };
        for (const Row& row :
             {Row{"/a/b", "/a/b"}, Row{"/%61/b", "/a/b"}, Row{"/a//b/", "/a/b"},
              Row{"/a/./b", "/a/b"}, Row{"/a/x/../b", "/a/b"}, Row{"/../../a", "/a"}, Row{"/", "/"},
              Row{"", "/"}, Row{"/a%", "/a%"}, Row{"/a%2", "/a%2"}, Row{"/a%zz", "/a%zz"},
              Row{"/a%2Fb", "/a/b"}}) {
            CAPTURE(row.path);
            CHECK(route::canonical_path(row.path) == row.want);
        }
        CHECK(route::is_canonical_path("/v1/chat/completions"));
        CHECK(!route::is_canonical_path("/v1/"));
    }
}

TEST_SUITE("route/handoff") {
    TEST_CASE("reserved members go, everything else stays byte for byte") {
        const std::vector<std::string> reserved = {"kv_transfer_params", "vllm_xargs.mode",
                                                   "vllm_xargs.other"};
        struct Row {
            const char* body;
            const char* want;
            const char* first;
        };
        for (const Row& row :
             {Row{R"({"a":1,"kv_transfer_params":{"x":[1]},"b":2})", R"({"a":1,"b":2})",
                  "kv_transfer_params"},
              Row{R"({"kv_transf\u0065r_params":null,"b": 2})", R"({"b": 2})",
                  "kv_transfer_params"},
              Row{R"({"kv_transfer_params":1,"a":0,"kv_transfer_params":2})", R"({"a":0})",
                  "kv_transfer_params"},
              Row{R"({"vllm_xargs":{"mode":"full","keep": 1.50},"z":0})",
                  R"({"vllm_xargs":{"keep": 1.50},"z":0})", "vllm_xargs.mode"},
              Row{R"({"vllm_xargs":{"mode":1,"other":2}})", R"({"vllm_xargs":{}})",
                  "vllm_xargs.mode"},
              Row{R"({"vllm_xargs":"mode"})", R"({"vllm_xargs":"mode"})", ""},
              Row{R"({"x":{"kv_transfer_params":1}})", R"({"x":{"kv_transfer_params":1}})", ""}}) {
            CAPTURE(row.body);
            json::BodyReader reader;
            json::BodyReader nested;
            const std::string text = padded(row.body);
            const auto body = reader.parse(text);
            REQUIRE(body);
            const auto found = route::find_reserved(**body, reserved, nested);
            REQUIRE(found);
            CHECK(*found == row.first);
            json::Edits edits(**body);
            route::drop_reserved(**body, reserved, nested, edits);
            CHECK(joined(edits) == row.want);
        }
    }
}

TEST_SUITE("route/handoff") {
    TEST_CASE("an object that cannot be looked into is no object without reserved members") {
        const std::vector<std::string> reserved = {"kv_transfer_params", "vllm_xargs.mode"};
        std::string many = R"({"vllm_xargs":{)";
        for (int i = 0; i < 1100; ++i) {
            many += "\"x" + std::to_string(i) + "\":1,";
        }
        many += R"("mode":1}})";
        for (const auto& [text, is_large] :
             {std::pair{std::string(R"({"vllm_xargs":{"a":NaN,"mode":1}})"), false},
              std::pair{std::string(R"({"vllm_xargs":{"\ud800":1,"mode":1}})"), false},
              std::pair{many, true}}) {
            CAPTURE(text.substr(0, 60));
            json::BodyReader reader;
            json::BodyReader nested;
            const std::string body_text = padded(text);
            const auto body = reader.parse(body_text);
            REQUIRE(body);
            const auto found = route::find_reserved(**body, reserved, nested);
            REQUIRE_FALSE(found);
            CHECK((found.error().code == Code::Limit) == is_large);
            CHECK(found.error().what == "vllm_xargs");
        }
    }
}

TEST_SUITE("route/prompt") {
    TEST_CASE("prompts given as ids need no tokenizer; of several the first decides") {
        struct Row {
            const char* body;
            std::vector<std::uint32_t> want;
            const char* miss;
        };
        for (const Row& row :
             {Row{R"({"prompt":[5,6,7]})", {5, 6, 7}, ""},
              Row{R"({"prompt":[[5,6],[7]]})", {5, 6}, ""},
              Row{R"({"prompt":[5,-1]})", {}, "tokenize"},
              Row{R"({"prompt":[5,1.5]})", {}, "tokenize"},
              Row{R"({"prompt":"text"})", {}, "tokenize"},
              Row{R"({"prompt":["a","b"]})", {}, "tokenize"},
              Row{R"({"prompt":[]})", {}, "text_empty"},
              Row{R"({"prompt":null})", {}, "text_empty"},
              Row{R"({"model":"m"})", {}, "text_empty"},
              Row{R"({"prompt":[5],"lora_request":{"lora_int_id":3}})", {}, "adapter"},
              Row{R"({"prompt":[5],"lora_request":null})", {5}, ""},
              Row{R"({"prompt":[5],"cache_salt":""})", {}, "salt"},
              Row{R"({"prompt":[5],"cache_salt":null})", {5}, ""},
              Row{R"({"prompt":[5],"prompt_token_ids":[6]})", {5}, ""}}) {
            CAPTURE(row.body);
            json::BodyReader reader;
            const std::string text = padded(row.body);
            const auto body = reader.parse(text);
            REQUIRE(body);
            route::Facts facts;
            facts.api = route::Api::Completions;
            facts.body = *body;
            route::Prompt prompt;
            route::read_prompt(facts, nullptr, reader, prompt);
            CHECK(prompt.tokens == row.want);
            CHECK(prompt.miss == row.miss);
            CHECK(route::is_token_prompt(facts) ==
                  (std::string_view(row.body).find("[5") != std::string_view::npos ||
                   std::string_view(row.body).find("[[5") != std::string_view::npos));
        }
    }

    TEST_CASE("a job carries its own copy of the body") {
        route::Facts facts;
        facts.api = route::Api::Completions;
        std::string text = padded(R"({"prompt":[1,2,3]})");
        route::PromptJob job(facts, text, nullptr);
        std::fill(text.begin(), text.end(), 'x');
        job.run();
        CHECK(job.prompt.tokens == std::vector<std::uint32_t>{1, 2, 3});
    }
}

TEST_SUITE("route/receipt") {
    TEST_CASE("a receipt is one JSON object whatever the client sent as names") {
        route::Receipt receipt;
        receipt.id = "a\"b\n\xFF";
        receipt.model = "m\\";
        receipt.legs.push_back({});
        receipt.candidates.push_back({});
        receipt.misses.push_back({route::Tier::KvExact, "no_worker"});
        const std::string text = padded(receipt.to_json());
        json::BodyReader reader;
        const auto body = reader.parse(text);
        REQUIRE(body);
        CHECK(*reader.string((*body)->value(*(*body)->find("model"))) == "m\\");
        CHECK((*body)->find("legs")->type == json::Type::Array);
        receipt.reset();
        CHECK(receipt.legs.empty());
        CHECK(receipt.predicted_cached == route::Receipt::kUnknown);
    }
}
