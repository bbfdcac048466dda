#include "tests/sim/support/json.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace sluice::sim::json;

namespace {

std::string round_trip(std::string_view text, Style style = Style::Compact) {
    auto v = parse(text);
    REQUIRE(std::holds_alternative<Value>(v));
    return Writer(style).value(std::get<Value>(v)).take();
}

}  // namespace

TEST_SUITE("sim/json") {
    TEST_CASE("values come back as they were") {
        for (const char* text : {R"({"b":1,"a":[true,false,null,-0.5,"x\n\"\\"],"c":{}})",
                                 "9223372036854775807", R"("größe 塩")", "[]", "1e+300"}) {
            CHECK(round_trip(text) == text);
        }
        CHECK(round_trip(R"("😀")") == "\"\xF0\x9F\x98\x80\"");
        CHECK(round_trip("18446744073709551615") == "1.8446744073709552e+19");
    }

    TEST_CASE("spaced text is ASCII, as json.dumps writes it") {
        CHECK(round_trip("{\"a\":[1,\"\xC3\xB6\xF0\x9F\x98\x80\"]}", Style::Spaced) ==
              "{\"a\": [1, \"\\u00f6\\ud83d\\ude00\"]}");
    }

    TEST_CASE("errors carry Python's text and position") {
        struct Row {
            const char* text;
            const char* message;
            std::size_t at;
        };
        for (const Row& row :
             {Row{R"({"model":"tiny",)", "Expecting property name enclosed in double quotes", 16},
              Row{"", "Expecting value", 0}, Row{"[1 2]", "Expecting ',' delimiter", 3},
              Row{R"({"a" 1})", "Expecting ':' delimiter", 5}, Row{"1 x", "Extra data", 2},
              Row{R"(["ö)", "Unterminated string starting at", 1},
              Row{R"(["ö", )", "Expecting value", 6}, Row{R"("\x")", "Invalid \\escape", 1},
              Row{"\"\n\"", "Invalid control character at", 1}}) {
            CAPTURE(row.text);
            auto v = parse(row.text);
            REQUIRE(std::holds_alternative<ParseError>(v));
            CHECK(std::get<ParseError>(v).message == row.message);
            CHECK(std::get<ParseError>(v).position == row.at);
        }
    }

    TEST_CASE("NaN is a number and the last of two equal keys counts") {
        auto v = parse(R"({"a":1,"a":NaN})");
        CHECK(std::isnan(*std::get<Value>(v).find("a")->real()));
    }

    TEST_CASE("nesting has a limit") {
        CHECK(std::holds_alternative<ParseError>(parse(std::string(100'000, '['))));
    }
}
