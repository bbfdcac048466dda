#include "core/json/writer.hpp"

#include <doctest/doctest.h>

#include <string>

using sluice::json::Writer;

TEST_SUITE("json/writer") {
    TEST_CASE("commas and colons fall where they belong") {
        std::string out;
        Writer w(out);
        w.object([&] {
            w.member("a", 1);
            w.key("l");
            w.array([&] {
                w.value("x");
                w.object([&] { w.member("b", true); });
                w.null();
                w.array([] {});
            });
            w.member("f", 0.5);
        });
        CHECK(out == R"({"a":1,"l":["x",{"b":true},null,[]],"f":0.5})");
    }

    TEST_CASE("text is escaped, and bytes that are no UTF-8 are replaced one by one") {
        std::string out;
        Writer w(out);
        w.value(std::string("q\"\\\n\x01 \xE5\x8C\x97 \xFF\xC0\xAF\xED\xA0\x80 \xF0\x9F\x99\x82"));
        CHECK(out ==
              "\"q\\\"\\\\\\n\\u0001 \xE5\x8C\x97 \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
              "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \xF0\x9F\x99\x82\"");
    }
}
