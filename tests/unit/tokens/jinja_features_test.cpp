// Every line of the feature vectors: what the real Jinja renders or refuses.
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <string>

#include "core/tokens/chat.hpp"
#include "core/tokens/jinja/json.hpp"

using namespace sluice::tokens;

namespace {

std::tm vector_clock() {
    std::tm t{};
    t.tm_year = 125;
    t.tm_mon = 2;
    t.tm_mday = 7;
    t.tm_hour = 9;
    t.tm_min = 5;
    t.tm_sec = 3;
    timegm(&t);
    return t;
}

std::string text_of(const Value& object, std::string_view key) {
    const Value* v = find(*object.dict, key);
    return v != nullptr && v->is_string() ? std::string(v->str()) : std::string();
}

}  // namespace

TEST_SUITE("tokens/jinja features") {
    TEST_CASE("every feature line renders, or fails, as the real Jinja does") {
        std::ifstream file("tests/vectors/chat/jinja-features.jsonl");
        REQUIRE(file);
        int lines = 0;
        for (std::string line; std::getline(file, line); ++lines) {
            Arena arena(std::size_t{16} << 20U);
            const auto parsed = jinja::parse_json(arena, line);
            REQUIRE(parsed);
            CAPTURE(text_of(*parsed, "id"));
            std::string variables;
            Value culprit;
            const Value* vars = find(*parsed->dict, "vars");
            jinja::dump_json(variables, vars != nullptr ? *vars : Value::of(make_dict(arena, 0)),
                             {}, std::size_t{16} << 20U, culprit);
            const auto compiled = ChatTemplate::compile(text_of(*parsed, "template"), {});
            const auto got = compiled ? (*compiled)->render_variables(variables, {vector_clock()})
                                      : sluice::Result<std::string>(compiled.error());
            if (find(*parsed->dict, "error") == nullptr) {
                CHECK_MESSAGE(got.ok(), (got.ok() ? "" : got.error().what));
                CHECK((got ? *got : std::string()) == text_of(*parsed, "rendered"));
                continue;
            }
            REQUIRE_FALSE(got);
            CHECK(got.error().code == sluice::Code::Invalid);
            // The text of a syntax error is ours (it has a line); the others are Python's.
            static const std::set<std::string> kOurText{"TemplateSyntaxError",
                                                        "TemplateAssertionError"};
            if (!kOurText.contains(text_of(*parsed, "error_type"))) {
                CHECK(got.error().what == text_of(*parsed, "error"));
            }
        }
        CHECK(lines == 185);
    }

    // Made by running Jinja2 3.1.6 on CPython 3.11; the first line has the variables of all.
    TEST_CASE("expressions and statements give what Jinja on CPython gives") {
        std::ifstream file("tests/vectors/chat/jinja-expressions.jsonl");
        REQUIRE(file);
        std::string variables;
        int lines = 0;
        for (std::string line; std::getline(file, line);) {
            Arena arena(std::size_t{16} << 20U);
            const auto parsed = jinja::parse_json(arena, line);
            REQUIRE(parsed);
            if (const Value* vars = find(*parsed->dict, "vars")) {
                Value culprit;
                jinja::dump_json(variables, *vars, {}, std::size_t{16} << 20U, culprit);
                continue;
            }
            ++lines;
            const std::string source = text_of(*parsed, "template");
            CAPTURE(source);
            const auto compiled = ChatTemplate::compile(source, {});
            const auto got = compiled ? (*compiled)->render_variables(variables, {vector_clock()})
                                      : sluice::Result<std::string>(compiled.error());
            if (find(*parsed->dict, "error") != nullptr) {
                CHECK_FALSE(got);
            } else {
                REQUIRE(got);
                CHECK(*got == text_of(*parsed, "rendered"));
            }
        }
        CHECK(lines > 500);
    }

    TEST_CASE("what Python prints with an address is refused, as no prompt can be known then") {
        for (const char* source : {"{{ d.items }}", "{{ [1] | reverse }}", "{{ range }}",
                                   "{{ [1] | map('string') | string }}"}) {
            CAPTURE(source);
            const auto got =
                (*ChatTemplate::compile(source, {}))->render_variables(R"({"d":{}})", {});
            REQUIRE_FALSE(got);
            CHECK(got.error().code == sluice::Code::Unsupported);
        }
    }
}
