#include "core/json/body.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/json/edits.hpp"

using namespace sluice;
using json::BodyReader;
using json::Type;

namespace {

// A body with the slack the reader asks for.
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
    CHECK(out.size() == edits.size_after());
    return out;
}

}  // namespace

TEST_SUITE("json/body") {
    TEST_CASE("members are reported with type and span, nested ones are not") {
        BodyReader reader;
        const std::string text = padded(
            R"( {"model" : "a\u0062c", "n":1.50 ,"stream":true,"x":{"model":"evil"},"l":[1,[2]],"z":null} )");
        const auto body = reader.parse(text);
        REQUIRE(body);
        const json::Body& b = **body;
        REQUIRE(b.fields().size() == 6);
        CHECK(b.value(*b.find("n")) == "1.50");
        CHECK(b.value(*b.find("x")) == R"({"model":"evil"})");
        CHECK(b.value(*b.find("l")) == "[1,[2]]");
        CHECK(b.find("z")->type == Type::Null);
        CHECK(b.find("stream")->type == Type::Bool);
        CHECK(b.find("missing") == nullptr);
        const auto model = reader.string(b.value(*b.find("model")));
        REQUIRE(model);
        CHECK(*model == "abc");
        CHECK(text[b.find("model")->at] == '"');
    }

    TEST_CASE("the last of two members with one name counts, escaped names included") {
        BodyReader reader;
        const std::string text = padded(R"({"model":"a","mod\u0065l":"b"})");
        const auto body = reader.parse(text);
        REQUIRE(body);
        CHECK((*body)->value(*(*body)->find("model")) == "\"b\"");
    }

    TEST_CASE("what is not one JSON object is refused") {
        BodyReader reader;
        for (const char* bad :
             {"", "{", "[]", "null", "42", "\"x\"", "{\"a\":1}x", "{\"a\"}", "{\"a\":}",
              "{\"a\":1,}", "\xEF\xBB\xBF[]", "{\"a\":\"\xFF\"}", "{'a':1}"}) {
            CAPTURE(bad);
            const std::string text = padded(bad);
            const auto body = reader.parse(text);
            REQUIRE(!body);
            CHECK(body.error().code == Code::Invalid);
        }
    }

    TEST_CASE("too many members are a limit, not memory") {
        std::string text = "{";
        for (std::size_t i = 0; i <= BodyReader::kMaxFields; ++i) {
            text += (i ? "," : "") + std::string("\"k") + std::to_string(i) + "\":0";
        }
        text += "}";
        text.reserve(text.size() + json::kSlack);
        BodyReader reader;
        const auto body = reader.parse(text);
        REQUIRE(!body);
        CHECK(body.error().code == Code::Limit);
    }

    TEST_CASE("token ids are read exactly or refused") {
        BodyReader reader;
        std::vector<std::uint32_t> ids;
        const std::string good = padded("[1, 2,4294967295]");
        REQUIRE(reader.token_ids(good, ids));
        CHECK(ids == std::vector<std::uint32_t>{1, 2, 4294967295U});
        for (const char* bad : {"[1.5]", "[-1]", "[4294967296]", "[\"1\"]", "{}"}) {
            CAPTURE(bad);
            const std::string text = padded(bad);
            std::vector<std::uint32_t> none;
            CHECK(!reader.token_ids(text, none));
        }
    }

    TEST_CASE("the first element of a list is a span") {
        BodyReader reader;
        const std::string texts = padded(R"(["a,b", "c"])");
        const auto first = reader.first_element(texts);
        REQUIRE(first);
        CHECK(first->type == Type::String);
        CHECK(first->value == "\"a,b\"");
        const std::string lists = padded("[[1,2],[3]]");
        CHECK(reader.first_element(lists)->value == "[1,2]");
        const std::string empty = padded("[]");
        CHECK(reader.first_element(empty).error().code == Code::NotFound);
    }
}

TEST_SUITE("json/edits") {
    TEST_CASE("erasing takes the right comma wherever the members stand") {
        struct Row {
            const char* body;
            std::vector<const char*> names;
            const char* want;
        };
        for (const Row& row :
             {Row{R"({"a":1,"b":2})", {"a"}, R"({"b":2})"},
              Row{R"({"a":1,"b":2})", {"b"}, R"({"a":1})"},
              Row{R"({"a":1,"b":2,"c":3})", {"b"}, R"({"a":1,"c":3})"},
              Row{R"({"a":1,"b":2,"c":3})", {"b", "c"}, R"({"a":1})"},
              Row{R"({"a":1,"b":2,"c":3})", {"a", "b"}, R"({"c":3})"},
              Row{R"({"a":1,"b":2,"c":3})", {"a", "c"}, R"({"b":2})"},
              Row{R"({"a":1,"x":0,"b":2,"x":{"y":[1]},"c":3})", {"x"}, R"({"a":1,"b":2,"c":3})"},
              Row{R"({ "a" : 1 })", {"a"}, R"({  })"}, Row{R"({"a":1,"a":2})", {"a"}, R"({})"},
              Row{R"({"a":1})", {"q"}, R"({"a":1})"}}) {
            CAPTURE(row.body);
            BodyReader reader;
            const std::string text = padded(row.body);
            const auto body = reader.parse(text);
            REQUIRE(body);
            json::Edits edits(**body);
            for (const char* name : row.names) {
                edits.erase(name);
            }
            CHECK(joined(edits) == row.want);
        }
    }

    TEST_CASE("a replaced value leaves every other byte alone") {
        BodyReader reader;
        const std::string text =
            padded("{ \"x\":1e5,\n\"model\" :\t\"a\" , \"big\":123456789012345678901234567890}");
        const auto body = reader.parse(text);
        REQUIRE(body);
        json::Edits edits(**body);
        edits.set_existing("model", "\"served\"");
        edits.set_existing("absent", "1");
        edits.erase("x");
        CHECK(joined(edits) ==
              "{ \"model\" :\t\"served\" , \"big\":123456789012345678901234567890}");
    }
}
