// The step before the template, line by line against what the engine's own code made.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "core/tokens/chat_messages.hpp"
#include "core/tokens/jinja/json.hpp"

using namespace sluice::tokens;

namespace {

std::string dumped(const Value& v) {
    std::string out;
    Value culprit;
    CHECK(jinja::dump_json(out, v, {}, std::size_t{16} << 20U, culprit) == jinja::DumpResult::Ok);
    return out;
}

Value field(const Value& line, std::string_view name) {
    const Value* v = find(*line.dict, name);
    return v != nullptr ? *v : Value::none();
}

struct Shaped {
    std::string messages;
    std::string tools;
};

sluice::Result<std::string> shaped(const std::string& messages, MessageStyle style = {}) {
    Arena arena(std::size_t{16} << 20U);
    const auto parsed = jinja::parse_json(arena, R"({"m":)" + messages + "}");
    REQUIRE(parsed);
    const auto out = shape_messages(arena, field(*parsed, "m"), style);
    if (!out) {
        return out.error();
    }
    return dumped(Value::of(out->messages));
}

}  // namespace

TEST_SUITE("tokens/chat messages") {
    TEST_CASE("messages and tools become what the engine gives to templates") {
        struct Row {
            const char* file;
            ContentFormat format;
        };
        for (const Row& row :
             {Row{"tests/vectors/chat/qwen3.jsonl", ContentFormat::String},
              Row{"tests/vectors/chat/llama3_1_tools.jsonl", ContentFormat::OpenAi}}) {
            std::ifstream file(row.file);
            REQUIRE(file);
            int compared = 0;
            for (std::string line; std::getline(file, line);) {
                Arena arena(std::size_t{16} << 20U);
                const auto parsed = jinja::parse_json(arena, line);
                REQUIRE(parsed);
                CAPTURE(row.file);
                CAPTURE(std::string(field(*parsed, "id").str()));
                const Value wanted = field(*parsed, "template_messages");
                MessageStyle style;
                style.format = row.format;
                const auto got = shape_messages(arena, field(*parsed, "messages"), style);
                if (wanted.is_none()) {
                    REQUIRE_FALSE(got);
                    CHECK(got.error().code == sluice::Code::Invalid);
                    CHECK(got.error().what == field(*parsed, "error").str());
                    continue;
                }
                REQUIRE(got);
                CHECK(dumped(Value::of(got->messages)) == dumped(wanted));
                const auto tools = shape_tools(arena, field(*parsed, "tools"));
                REQUIRE(tools);
                CHECK(dumped(*tools) == dumped(field(*parsed, "template_tools")));
                ++compared;
            }
            CHECK(compared == 82);
        }
    }

    TEST_CASE("a developer message stays for a template that knows the role") {
        const std::string messages =
            R"([{"role":"developer","content":"D"},{"role":"user","content":"u"}])";
        CHECK(*shaped(messages, {.knows_developer = true}) ==
              R"([{"role": "developer", "content": "D", "tools": null}, )"
              R"({"role": "user", "content": "u"}])");
        CHECK(*shaped(messages) ==
              R"([{"role": "system", "content": "D"}, {"role": "user", "content": "u"}])");
    }

    TEST_CASE("unknown keys of parts and calls follow the known ones, those of messages go") {
        CHECK(*shaped(R"([{"role":"user","x":1,"content":[{"cache_control":{"a":1},"text":"t",)"
                      R"("type":"text"}]}])",
                      {.format = ContentFormat::OpenAi}) ==
              R"([{"role": "user", "content": [{"type": "text", "text": "t", )"
              R"("cache_control": {"a": 1}}]}])");
        CHECK(*shaped(R"([{"role":"assistant","tool_calls":[{"x":1,"type":"function","id":"c",)"
                      R"("function":{"y":2,"name":"f","arguments":"{\"b\":1,\"a\":1.0}"}}]}])") ==
              R"([{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": )"
              R"({"arguments": {"b": 1, "a": 1.0}, "name": "f", "y": 2}, "type": "function", )"
              R"("x": 1}]}])");
    }

    TEST_CASE("a billing header is taken out of system messages only") {
        CHECK(*shaped(R"([{"role":"system","content":"x-anthropic-billing-header: 1\nrest"},)"
                      R"({"role":"user","content":"x-anthropic-billing-header: 1\nrest"}])") ==
              R"([{"role": "system", "content": "rest"}, )"
              R"({"role": "user", "content": "x-anthropic-billing-header: 1\nrest"}])");
    }

    TEST_CASE("reasoning has two names and the newer one wins") {
        CHECK(*shaped(R"([{"role":"assistant","content":"a","reasoning":"n",)"
                      R"("reasoning_content":"o"}])") ==
              R"([{"role": "assistant", "content": "a", "reasoning": "n", )"
              R"("reasoning_content": "n"}])");
        CHECK(*shaped(R"([{"role":"assistant","content":"a","reasoning_content":"o"}])",
                      {.engine = ChatEngine::TrtLlm}) ==
              R"([{"role": "assistant", "content": "a", "reasoning_content": "o"}])");
    }

    TEST_CASE("TensorRT-LLM keeps arguments that are no JSON as they are") {
        const std::string messages =
            R"([{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":)"
            R"({"name":"f","arguments":"{oops"}}]}])";
        CHECK(shaped(messages, {.engine = ChatEngine::TrtLlm})->find(R"("arguments": "{oops")") !=
              std::string::npos);
        CHECK(shaped(messages)->find(R"("arguments": {})") != std::string::npos);
    }

    TEST_CASE("what is no message is refused with a reason") {
        struct Row {
            const char* messages;
            const char* why;
        };
        for (const Row& row :
             {Row{R"([1])", "a message needs a role"},
              Row{R"([{"role":1}])", "a message needs a role"},
              Row{R"([{"role":"user","content":5}])",
                  "message content must be a string or a list of parts"},
              Row{R"([{"role":"user","content":[{"type":"smell"}]}])", "Unknown part type: smell"},
              Row{R"([{"role":"user","content":[{"type":7}]}])",
                  "Invalid 'type' field in multimodal part."},
              Row{R"([{"role":"user","content":[{"type":"text","text":7}]}])",
                  "a part's text must be a string"},
              Row{R"([{"role":"assistant","tool_calls":[{"id":"x"}]}])",
                  "a tool call needs a function with a name"}}) {
            CAPTURE(row.messages);
            const auto got = shaped(row.messages);
            REQUIRE_FALSE(got);
            CHECK(got.error().code == sluice::Code::Invalid);
            CHECK(got.error().what == row.why);
        }
    }
}
