// Bounds of the engine: an error, never a crash, whatever template and data want.
#include <doctest/doctest.h>

#include <string>

#include "core/tokens/chat.hpp"

using namespace sluice::tokens;
using sluice::Code;

namespace {

sluice::Result<std::string> render(const std::string& source, const std::string& variables = "{}") {
    const auto compiled = ChatTemplate::compile(source, {});
    if (!compiled) {
        return compiled.error();
    }
    return (*compiled)->render_variables(variables, {});
}

std::string repeated(const std::string& text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) {
        out += text;
    }
    return out;
}

}  // namespace

TEST_SUITE("tokens/jinja limits") {
    TEST_CASE("macros call each other at least 200 deep") {
        const auto got = render(
            "{% macro f(n) %}{% for i in [n] %}{% if i > 0 %}x{{ f(i - 1) }}{% endif %}{% endfor %}"
            "{% endmacro %}{{ f(200) }}");
        REQUIRE(got);
        CHECK(got->size() == 200);
    }

    TEST_CASE("recursion without end is the client's error, not a crash") {
        const auto got = render("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}");
        REQUIRE_FALSE(got);
        CHECK(got.error().code == Code::Invalid);
        CHECK(got.error().what == "maximum recursion depth exceeded");
        CHECK_FALSE(render("{% for x in t recursive %}{{ loop(t) }}{% endfor %}", R"({"t":[1]})"));
    }

    TEST_CASE("a long flat expression is evaluated or refused, not run off the stack") {
        const auto sum = render("{{ 1" + repeated(" + 1", 2000) + " }}");
        REQUIRE(sum);
        CHECK(*sum == "2001");
        const auto longer = render("{{ x" + repeated("|trim", 200'000) + " }}", R"({"x":"a"})");
        CHECK((longer.ok() ? *longer == "a"
                           : longer.error().what == "maximum recursion depth exceeded"));
    }

    TEST_CASE("a template nested too deeply does not compile") {
        const auto parens = render("{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}");
        REQUIRE_FALSE(parens);
        CHECK(parens.error().code == Code::Invalid);
        CHECK_FALSE(render(repeated("{% if a %}", 5000) + repeated("{% endif %}", 5000)));
        CHECK_FALSE(render("{{ " + repeated("not ", 5000) + "1 }}"));
        CHECK_FALSE(render("{{ " + repeated("-", 5000) + "1 }}"));
    }

    TEST_CASE("loops in loops end at the step limit") {
        const auto got = render(
            "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}");
        REQUIRE_FALSE(got);
        CHECK(got.error().code == Code::Limit);
    }

    TEST_CASE("output and memory are bounded") {
        for (const char* source : {"{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
                                   "{{ 'x' * 9999999999 }}", "{{ [1] * 9999999999 }}",
                                   "{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(100) %}"
                                   "{% set ns.s = ns.s + ns.s %}{% endfor %}",
                                   "{% set ns = namespace(l=[1]) %}{% for a in range(60) %}"
                                   "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
                                   "{% set ns = namespace(l=[1]) %}{% for a in range(60) %}"
                                   "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}",
                                   "{{ 'a'.ljust(99999999999) }}",
                                   "{{ 'aaaaaaaaaaaaaaaaaaaaaaaa'.replace('', 'b' * 9999999) }}"}) {
            CAPTURE(source);
            const auto got = render(source);
            REQUIRE_FALSE(got);
            CHECK(got.error().code == Code::Limit);
        }
    }

    TEST_CASE("values nested by a loop print, hash and compare within bounds") {
        const std::string nest =
            "{% set ns = namespace(t=(1,)) %}{% for a in range(5000) %}"
            "{% set ns.t = (ns.t,) %}{% endfor %}";
        CHECK_FALSE(render(nest + "{{ ns.t }}"));
        CHECK_FALSE(render(nest + "{{ ns.t | tojson }}"));
        CHECK_FALSE(render(nest + "{{ {ns.t: 1} }}"));
        CHECK(render(nest + "{{ ns.t == 1 }}"));
        CHECK(render(nest + nest + "{{ ns.t == ns.t }}"));
    }

    TEST_CASE("integers beyond 64 bits print and fail to add") {
        const auto printed =
            render("{{ x }} {{ x | tojson }}", R"({"x":123456789012345678901234})");
        REQUIRE(printed);
        CHECK(*printed == "123456789012345678901234 123456789012345678901234");
        CHECK_FALSE(render("{{ 9223372036854775807 + 1 }}"));
        CHECK_FALSE(render("{{ (0 - 9223372036854775807 - 1) // -1 }}"));
        CHECK_FALSE(render("{{ 10 ** 40 }}"));
    }
}
