#include "core/rules/json_value.hpp"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("rules/json_value");

using namespace sluice;
using rules::Json;

TEST_CASE("text is canonical: members sorted, no white space, numbers exact") {
    struct Row {
        std::string in, out;
    };
    for (const Row& row : {
             Row{R"( { "b" : 1 , "a" : [ true , null ] } )", R"({"a":[true,null],"b":1})"},
             Row{R"([18446744073709551615,-9223372036854775808])",
                 R"([18446744073709551615,-9223372036854775808])"},
             Row{"[1.5,1e3,2.0]", "[1.5,1000.0,2.0]"},
             Row{R"("\u00e9\n\"\\\/\u0001")", "\"\u00e9\\n\\\"\\\\/\\u0001\""},
             Row{"{}", "{}"},
         }) {
        CAPTURE(row.in);
        auto value = Json::parse(row.in);
        REQUIRE(value.ok());
        CHECK(value->dump() == row.out);
        CHECK(Json::parse(value->dump())->dump() == row.out);
    }
}

TEST_CASE("what is not strict JSON is refused") {
    const std::string deep = std::string(40, '[') + std::string(40, ']');
    for (const std::string& bad :
         {std::string(), std::string("{"), std::string("{\"a\":1}x"), std::string("{'a':1}"),
          std::string("[01]"), std::string("[1,]"), std::string("[nan]"), std::string("\"\xff\""),
          std::string("\"\\ud800\""), std::string("[1e999]"), std::string("[99999999999999999999]"),
          std::string("\"a\\u0000b\""), std::string("{\"a\\u0000\":1}"), deep}) {
        CAPTURE(bad);
        auto value = Json::parse(bad);
        REQUIRE_FALSE(value.ok());
        CHECK(value.error().code == Code::Invalid);
        CHECK_FALSE(value.error().what.empty());
    }
    CHECK_FALSE(Json::parse(std::string_view()).ok());
}

TEST_CASE("a member given twice is named, also when it is spelled with escapes") {
    auto value = Json::parse(R"({"x":{"port":1,"p\u006frt":2}})");
    REQUIRE_FALSE(value.ok());
    CHECK(value.error().what == "\"port\" is given twice");
}

TEST_CASE("the longest document is taken and one byte more is not") {
    const std::string head = "\"";
    std::string longest = head + std::string(Json::kMaxBytes - 2, 'x') + "\"";
    CHECK(Json::parse(longest).ok());
    longest.insert(1, "x");
    auto value = Json::parse(longest);
    REQUIRE_FALSE(value.ok());
    CHECK(value.error().code == Code::Limit);
}

TEST_CASE("a text that is not UTF-8 is written as one that is") {
    struct Row {
        std::string in, out;
    };
    const std::string mark = "\xEF\xBF\xBD";
    for (const Row& row :
         {Row{"a\xFF", "a" + mark}, Row{"\xE2\x82\xAC", "\xE2\x82\xAC"},
          Row{"\xE2\x82", mark + mark}, Row{"\xED\xA0\x80", mark + mark + mark},
          Row{"\xC0\xAF", mark + mark}, Row{"\xF0\x9F\x98\x80!", "\xF0\x9F\x98\x80!"}}) {
        CAPTURE(row.in);
        CHECK(Json(row.in).dump() == "\"" + row.out + "\"");
        CHECK(Json::parse(Json(row.in).dump()).ok());
        CHECK(Json::parse(Json(Json::Object{{row.in, 1}}).dump()).ok());
    }
}

TEST_CASE("a tree of more values than a configuration has is refused") {
    std::string text = "[0";
    for (std::size_t i = 2; i < Json::kMaxValues; ++i) {
        text += ",0";
    }
    CHECK(Json::parse(text + "]", 2 * text.size()).ok());
    auto value = Json::parse(text + ",0]", 2 * text.size());
    REQUIRE_FALSE(value.ok());
    CHECK(value.error().code == Code::Limit);
}

TEST_SUITE_END();
