#include "tests/sim/vllm/tools.hpp"

#include <doctest/doctest.h>

using namespace sluice::sim;
using namespace sluice::sim::vllm;

namespace {

// Deltas as text: words as they are, <name>, and arguments in brackets.
std::string follow(std::string_view answer, std::size_t step) {
    ToolStream stream;
    std::string out;
    for (std::size_t i = 0; i < answer.size(); i += step) {
        for (const ToolDelta& d : stream.push(answer.substr(i, step))) {
            if (d.kind == ToolDelta::Kind::Start) {
                out += "<" + std::to_string(d.index) + d.text + ">";
            } else {
                out += d.text;
            }
        }
    }
    return out;
}

constexpr std::string_view kTwo =
    "Well. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"c\": \"}\\\"\"}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";

}  // namespace

TEST_SUITE("sim/tools") {
    TEST_CASE("calls are found the same however the text arrives") {
        for (const std::size_t step : {1U, 3U, 8U, 1000U}) {
            CAPTURE(step);
            CHECK(follow(kTwo, step) == "Well. <0f>{\"c\": \"}\\\"\"}<1g>{}");
        }
    }

    TEST_CASE("a finished answer gives its calls and the text before them") {
        const ToolAnswer a = parse_tools(kTwo);
        CHECK(a.text == "Well. ");
        REQUIRE(a.calls.size() == 2);
        CHECK(a.calls[0].arguments == R"({"c": "}\""})");
        CHECK(a.calls[1].name == "g");
    }

    TEST_CASE("a call cut off is text") {
        const ToolAnswer a = parse_tools("<tool_call>\n{\"name\": \"f\"");
        CHECK(a.calls.empty());
        CHECK(a.text == "<tool_call>\n{\"name\": \"f\"");
    }

    TEST_CASE("a made-up call satisfies the simple parts of a schema") {
        auto v = json::parse(
            R"({"name":"f","parameters":{"type":"object","required":["a","b","c"],)"
            R"("properties":{"a":{"type":"string","enum":["x"]},"b":{"type":"integer"},)"
            R"("c":{"type":"object"},"d":{"type":"string"}}}})");
        CHECK(make_call(std::get<json::Value>(v)) ==
              "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\", \"b\": 1, \"c\": {}}}\n"
              "</tool_call>");
    }
}
