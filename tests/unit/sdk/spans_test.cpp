#include "sluice/sdk/cxx/spans.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sluice;

TEST_SUITE("sdk/spans") {
    TEST_CASE("members are found as they are written") {
        const std::string text =
            " { \"a\" : 1e999 ,\"b\\\"\":[ 1, {\"x\":[]} ],\"c\":\"}\\\"\",\"d\":-0.50,\"a\":null "
            "} \n";
        const auto members = spans::members_of(text);
        REQUIRE(members);
        REQUIRE(members->size() == 5);
        CHECK((*members)[0].value == "1e999");
        CHECK((*members)[1].name == "b\\\"");
        CHECK((*members)[1].value == "[ 1, {\"x\":[]} ]");
        CHECK((*members)[2].value == "\"}\\\"\"");
        CHECK((*members)[3].value == "-0.50");
        CHECK(spans::value_of(*members, "a").empty());
        CHECK(spans::members_of("{}")->empty());
        CHECK(spans::elements_of("[1,[2,3],\"x\"]")->at(1).value == "[2,3]");
    }

    TEST_CASE("depth has no end") {
        const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
        const std::string text = "{\"deep\":" + deep + ",\"after\":7}";
        const auto members = spans::members_of(text);
        REQUIRE(members);
        CHECK(members->at(0).value == deep);
        CHECK(members->at(1).value == "7");
    }

    TEST_CASE("a bracket closes what was opened, however deep") {
        for (const std::size_t depth : {1, 2, 63, 64, 65, 127, 128, 129, 1000}) {
            CAPTURE(depth);
            // Every third one is an object.
            std::string open, close;
            for (std::size_t i = 0; i < depth; ++i) {
                open += i % 3 == 0 ? "{\"k\":" : "[";
                close.insert(0, 1, i % 3 == 0 ? '}' : ']');
            }
            CHECK(spans::members_of(open + "1" + close));
            for (std::size_t i = 0; i < depth; i += depth / 7 + 1) {
                std::string wrong = close;
                wrong[i] = wrong[i] == '}' ? ']' : '}';
                CHECK_FALSE(spans::members_of(open + "1" + wrong));
            }
        }
    }

    TEST_CASE("a text ends where it is closed, wherever that is") {
        const std::string more = "0123456789abcdefghijklmn";
        for (std::size_t n = 0; n < more.size(); ++n) {
            CAPTURE(n);
            const std::string head = more.substr(0, n);
            for (const char* tail : {"", "\\\"", "\\\\", "\xc3\xa9", "\x7f", "!#[]{},:"}) {
                const std::string value = '"' + head + tail + '"';
                const std::string text = "[" + value + ",7,\"" + more + "\"]";
                const auto list = spans::elements_of(text);
                REQUIRE(list);
                REQUIRE(list->size() == 3);
                CHECK(list->at(0).value == value);
                CHECK(list->at(1).value == "7");
            }
            for (const char c : {'\n', '\t', '\x1f', '\0'}) {
                CHECK_FALSE(spans::elements_of("[\"" + head + c + more + "\"]"));
            }
            CHECK_FALSE(spans::elements_of("[\"" + head + "\\\"]"));
        }
    }

    TEST_CASE("what is not exactly one object is none") {
        const std::string whole = R"({"a":{"b":[1,2,{"c":"d"}]},"e":true})";
        for (std::size_t n = 0; n < whole.size(); ++n) {
            CAPTURE(n);
            CHECK_FALSE(spans::members_of(whole.substr(0, n)));
        }
        for (const char* broken : {"",
                                   "[]",
                                   "null",
                                   "{} {}",
                                   "{\"a\":1,}",
                                   "{\"a\":}",
                                   "{\"a\" 1}",
                                   "{a:1}",
                                   "{,}",
                                   "{\"a\":1]",
                                   "{\"a\":[1}}",
                                   "{\"a\":tru}",
                                   "{\"a\":1 2}",
                                   "{\"a\":--1}",
                                   "{\"a\":\"\n\"}",
                                   "{\"a\":[,]}",
                                   "{\"a\":[1,]}",
                                   "data: {}",
                                   "{\"a\":trueE}",
                                   "{\"a\":e5}",
                                   "{\"a\":+1}",
                                   "{\"a\":1x}",
                                   "{\"a\":-}",
                                   "{\"a\":TRUE}"}) {
            CAPTURE(broken);
            CHECK_FALSE(spans::members_of(broken));
        }
    }

    TEST_CASE("texts and numbers are taken only when they need no conversion") {
        CHECK(spans::plain_text("\"abc\"") == "abc");
        CHECK(spans::plain_text("\"a\\nb\"").empty());
        CHECK(spans::plain_text("5").empty());
        CHECK(spans::whole_number("18446744073709551615") == 18446744073709551615U);
        CHECK_FALSE(spans::whole_number("18446744073709551616"));
        CHECK_FALSE(spans::whole_number("1.0"));
        CHECK_FALSE(spans::whole_number("-1"));
    }
}
