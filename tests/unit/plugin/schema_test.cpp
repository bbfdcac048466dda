#include "core/plugin/schema.hpp"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("plugin/schema");

using sluice::plugin::Finding;
using sluice::plugin::Schema;

namespace {

Schema parse(std::string_view text) {
    auto schema = Schema::parse(text);
    CAPTURE(text);
    REQUIRE_MESSAGE(schema.ok(), (schema.ok() ? "" : schema.error().what));
    return std::move(schema).value();
}

constexpr std::string_view kFields = R"({"type":"object","additionalProperties":false,
  "required":["mode"],
  "properties":{
    "mode":{"type":"string","enum":["off","hard"],"title":"Mode"},
    "port":{"type":"integer","minimum":0,"maximum":65535,"default":5557,"x-unit":"port"},
    "ratio":{"type":"number","minimum":0,"maximum":1},
    "flag":{"type":"boolean","default":true},
    "name":{"type":"string","minLength":1,"maxLength":4,"pattern":"^[a-z]+$"},
    "key":{"type":"string","x-secret":true,"maxLength":8},
    "engine":{"type":"string","x-immutable":true,"default":"nixl"},
    "ids":{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3},
    "breaker":{"type":"object","additionalProperties":false,"default":{},
      "properties":{"failures":{"type":"integer","minimum":1,"default":5},
                    "open_ms":{"type":"integer","default":30000}}}
  }})";

}  // namespace

TEST_CASE("what a schema names can be listed in its own order") {
    const Schema schema = parse(kFields);
    REQUIRE(schema.properties().size() == 9);
    CHECK(schema.properties()[0].name == "mode");
    CHECK(schema.properties()[0].is_required);
    CHECK(schema.properties()[0].allowed == "off, hard");
    CHECK(schema.properties()[1].name == "port");
    CHECK(schema.properties()[1].default_json == "5557");
    CHECK(schema.properties()[1].allowed == "0..65535");
    CHECK(schema.properties()[1].unit == "port");
    CHECK(schema.takes("breaker"));
    CHECK_FALSE(schema.takes("failures"));
    CHECK(schema.property("key")->is_secret);
    CHECK(schema.property("engine")->is_immutable);
    CHECK(schema.property("breaker")->default_json == R"({"failures":5,"open_ms":30000})");
}

TEST_CASE("a value outside the schema is refused with code, field and what is allowed") {
    const Schema schema = parse(kFields);
    struct Row {
        const char* json;
        const char* code;
        const char* field;
        const char* allowed;
    };
    for (const Row& row : {
             Row{R"({})", "missing_field", "mode", "off, hard"},
             Row{R"({"mode":"soft"})", "not_allowed", "mode", "off, hard"},
             Row{R"({"mode":1})", "wrong_type", "mode", "off, hard"},
             Row{R"({"mode":"off","prot":1})", "unknown_field", "prot", ""},
             Row{R"({"mode":"off","port":65536})", "out_of_range", "port", "0..65535"},
             Row{R"({"mode":"off","port":-1})", "out_of_range", "port", "0..65535"},
             Row{R"({"mode":"off","port":18446744073709551615})", "out_of_range", "port",
                 "0..65535"},
             Row{R"({"mode":"off","port":1.5})", "wrong_type", "port", "0..65535"},
             Row{R"({"mode":"off","port":"1"})", "wrong_type", "port", "0..65535"},
             Row{R"({"mode":"off","ratio":1.01})", "out_of_range", "ratio", "0..1"},
             Row{R"({"mode":"off","flag":0})", "wrong_type", "flag", "true, false"},
             Row{R"({"mode":"off","name":""})", "wrong_length", "name", "1..4 characters"},
             Row{R"({"mode":"off","name":"abcde"})", "wrong_length", "name", "1..4 characters"},
             Row{R"({"mode":"off","name":"a1"})", "wrong_format", "name", "1..4 characters"},
             Row{R"({"mode":"off","ids":[]})", "wrong_length", "ids", "1..3 items"},
             Row{R"({"mode":"off","ids":[1,"x"]})", "wrong_type", "ids[1]", "integer"},
             Row{R"({"mode":"off","breaker":{"failures":0}})", "out_of_range", "breaker.failures",
                 "at least 1"},
             Row{R"({"mode":"off","breaker":{"fail":0}})", "unknown_field", "breaker.fail", ""},
             Row{R"({"mode":"off","mode":"hard"})", "duplicate_field", "mode", ""},
             Row{R"([1])", "invalid_json", "", ""},
             Row{R"({"mode":)", "invalid_json", "", ""},
         }) {
        CAPTURE(row.json);
        const auto findings = schema.check(row.json);
        REQUIRE(findings.size() == 1);
        CHECK(findings[0].kind == Finding::Kind::Refused);
        CHECK(findings[0].code == row.code);
        CHECK(findings[0].field == row.field);
        CHECK(findings[0].allowed == row.allowed);
    }
}

TEST_CASE("every wrong field is named, up to a bound") {
    const Schema schema = parse(kFields);
    CHECK(schema.check(R"({"mode":"off","port":-1,"flag":1,"nope":2})").size() == 3);
    std::string many = R"({"mode":"off")";
    for (int i = 0; i < 100; ++i) {
        many += ",\"x" + std::to_string(i) + "\":1";
    }
    many += '}';
    CHECK(schema.check(many).size() == 32);
}

TEST_CASE("the bounds themselves are allowed") {
    const Schema schema = parse(kFields);
    CHECK(schema.check(R"({"mode":"off","port":0})").empty());
    CHECK(schema.check(R"({"mode":"off","port":65535,"ratio":1})").empty());
    // Length counts characters, not bytes.
    const Schema text = parse(
        R"({"type":"object","additionalProperties":false,"properties":{"t":{"type":"string","maxLength":2}}})");
    CHECK(text.check(R"({"t":"äö"})").empty());
    CHECK(text.check(R"({"t":"äöü"})").size() == 1);
}

TEST_CASE("defaults are filled in where nothing was given, objects inside included") {
    const Schema schema = parse(kFields);
    auto complete = schema.complete(R"({"breaker":{"open_ms":7},"mode":"hard"})");
    REQUIRE(complete.ok());
    CHECK(
        *complete ==
        R"({"breaker":{"open_ms":7,"failures":5},"mode":"hard","port":5557,"flag":true,"engine":"nixl"})");
    CHECK(schema.check(*complete).empty());
    CHECK(*schema.complete(*complete) == *complete);
}

TEST_CASE("64-bit integers keep every digit") {
    const Schema schema = parse(
        R"({"type":"object","additionalProperties":false,"properties":{"seed":{"type":"integer","maximum":18446744073709551615}}})");
    CHECK(schema.check(R"({"seed":18446744073709551615})").empty());
    CHECK(*schema.complete(R"({"seed":18446744073709551615})") ==
          R"({"seed":18446744073709551615})");
    CHECK(*schema.complete(R"({"seed":-9223372036854775808})") ==
          R"({"seed":-9223372036854775808})");
}

TEST_CASE("secrets are hidden, and no finding shows one") {
    const Schema schema = parse(kFields);
    CHECK(*schema.masked(R"({"mode":"off","key":"s3cr3t"})") == R"({"mode":"off","key":"***"})");
    const auto findings = schema.check(R"({"mode":"off","key":"much-too-long-s3cr3t"})");
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].text.find("s3cr3t") == std::string::npos);
}

TEST_CASE("a change of an immutable field is seen, defaults counted in") {
    const Schema schema = parse(kFields);
    CHECK(schema.immutable_changes(R"({"mode":"off"})", R"({"mode":"hard"})").empty());
    CHECK(
        schema.immutable_changes(R"({"mode":"off"})", R"({"mode":"off","engine":"nixl"})").empty());
    const auto changed =
        schema.immutable_changes(R"({"mode":"off"})", R"({"mode":"off","engine":"lmcache"})");
    REQUIRE(changed.size() == 1);
    CHECK(changed[0] == "engine");
}

TEST_CASE("a schema outside the subset is refused with the reason") {
    struct Row {
        const char* text;
        const char* says;
    };
    for (
        const Row& row : {
            Row{"", "not JSON"},
            Row{"[]", "not a JSON object"},
            Row{R"({"type":"string"})", "type object"},
            Row{R"({"type":"object"})", "additionalProperties"},
            Row{R"({"type":"object","additionalProperties":true})", "additionalProperties"},
            Row{R"({"additionalProperties":false})", "\"type\""},
            Row{R"({"type":["object"],"additionalProperties":false})", "\"type\""},
            Row{R"({"type":"object","additionalProperties":false,"$ref":"#"})", "$ref"},
            Row{R"({"type":"object","additionalProperties":false,"oneOf":[]})", "oneOf"},
            Row{R"({"type":"object","additionalProperties":false,"required":["a"]})",
                "not among its properties"},
            Row{R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"null"}}})",
                "unknown type"},
            Row{R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","minimum":1}}})",
                "means nothing"},
            Row{R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","minimum":2,"maximum":1}}})",
                "lower bound"},
            Row{R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","maximum":1,"default":2}}})",
                "default"},
            Row{R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","pattern":"("}}})",
                "regular expression"},
            Row{R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"object"}}})",
                "a must say"},
            Row{R"({"type":"object","type":"object","additionalProperties":false})", "twice"},
        }) {
        CAPTURE(row.text);
        const auto schema = Schema::parse(row.text);
        REQUIRE_FALSE(schema.ok());
        CAPTURE(schema.error().what);
        CHECK(schema.error().what.find(row.says) != std::string::npos);
    }
}

TEST_CASE("a schema nested without end is refused") {
    std::string text;
    std::string close;
    for (int i = 0; i < 40; ++i) {
        text += R"({"type":"object","additionalProperties":false,"properties":{"a":)";
        close += "}}";
    }
    text += R"({"type":"string"})" + close;
    const auto schema = Schema::parse(text);
    REQUIRE_FALSE(schema.ok());
    CHECK(schema.error().what.find("nested deeper") != std::string::npos);
}

TEST_CASE("a text too long for a pattern is refused instead of matched") {
    const Schema schema = parse(
        R"({"type":"object","additionalProperties":false,"properties":{"t":{"type":"string","pattern":"^(a|b)*$"}}})");
    CHECK(schema.check(R"({"t":"abab"})").empty());
    const auto findings = schema.check("{\"t\":\"" + std::string(500'000, 'a') + "\"}");
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].code == "wrong_format");
}

TEST_SUITE_END();
