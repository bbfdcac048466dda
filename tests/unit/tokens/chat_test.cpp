#include "core/tokens/chat.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sluice::tokens;
using sluice::Code;

namespace {

constexpr const char* kPlain =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
constexpr const char* kParts =
    "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text | trim }}{% endfor "
    "%}</>"
    "{% endfor %}";

std::shared_ptr<const ChatTemplate> compiled(const std::string& source) {
    auto out = ChatTemplate::compile(source, {{"bos_token", "<s>"}});
    REQUIRE(out);
    return *out;
}

sluice::Result<std::string> render(const std::string& source, const std::string& fields,
                                   const ChatOptions& options = {}) {
    return compiled(source)->render(
        R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + fields + "}", options);
}

constexpr const char* kImage =
    R"({"messages":[{"role":"user","content":"one"},{"role":"user","content":)"
    R"([{"type":"text","text":"two"},{"type":"image_url","image_url":{"url":"u"}},)"
    R"({"type":"text","text":"three"}]},{"role":"user","content":"four"}]})";

}  // namespace

TEST_SUITE("tokens/chat") {
    TEST_CASE("a body renders with the special tokens and the generation prompt") {
        CHECK(*render(kPlain, "") == "<s><user>hi</><assistant>");
        CHECK(*render(kPlain, R"(,"add_generation_prompt":false)") == "<s><user>hi</>");
    }

    TEST_CASE("the request's own fields win over kwargs, unset values count for nothing") {
        const std::string source =
            "{{ bos_token }}|{{ add_generation_prompt }}|{{ documents }}|{{ x }}|"
            "{{ reasoning_effort }}|{{ enable_thinking is defined }}|{{ enable_thinking }}";
        CHECK(*render(source, R"(,"chat_template_kwargs":{"bos_token":"B",)"
                              R"("add_generation_prompt":false,"documents":[1],"x":null})") ==
              "B|True|[1]|||False|");
        CHECK(*render(source, R"(,"documents":[2],"reasoning_effort":"none",)"
                              R"("chat_template_kwargs":{"documents":[1],"x":"auto"})") ==
              "<s>|True|[2]||none|True|False");
        CHECK(*render(source, R"(,"reasoning_effort":"low",)"
                              R"("chat_template_kwargs":{"enable_thinking":false})") ==
              "<s>|True|None||low|True|False");
        CHECK(*render(source, R"(,"chat_template_kwargs":{"reasoning_effort":"low"})") ==
              "<s>|True|None||low|False|");
    }

    TEST_CASE("kwargs that would replace the template or the messages are refused") {
        CHECK(render(kPlain, R"(,"chat_template_kwargs":{"chat_template":"x"})").error().code ==
              Code::Invalid);
        CHECK(render(kPlain, R"(,"chat_template_kwargs":{"tokenize":true})").error().code ==
              Code::Invalid);
        CHECK(render(kPlain, R"(,"chat_template_kwargs":{"messages":[]})").error().code ==
              Code::Unsupported);
        CHECK(render(kPlain, R"(,"chat_template":"x")").error().code == Code::Unsupported);
        CHECK(render(kPlain, R"(,"chat_template_kwargs":7)").error().code == Code::Invalid);
    }

    TEST_CASE("the template's own refusal reaches the client word for word") {
        const auto got = render("{{ raise_exception('no ' + messages[0].content) }}", "");
        REQUIRE_FALSE(got);
        CHECK(got.error().code == Code::Invalid);
        CHECK(got.error().what == "no hi");
    }

    TEST_CASE("a final message is continued where its text ends") {
        const auto body = [](const char* content, const char* more = "") {
            return std::string(R"({"messages":[{"role":"assistant","content":)") + content +
                   R"(}],"add_generation_prompt":false,"continue_final_message":true)" + more + "}";
        };
        CHECK(*compiled(kPlain)->render(body(R"("abc ")"), {}) == "<s><assistant>abc ");
        CHECK(*compiled(kParts)->render(body(R"(["abc\n"])"), {}) == "<assistant>abc");
        CHECK(*compiled(kPlain)->render(body(R"("")"), {}) == "<s><assistant>");
        CHECK(compiled(kParts)->render(body("null"), {}).error().code == Code::Invalid);
        CHECK(compiled("x")->render(body(R"("a")"), {}).error().code == Code::Invalid);
        CHECK(compiled("content")->render(body(R"("a")"), {}).error().code == Code::Invalid);
        CHECK(render(kPlain, R"(,"continue_final_message":true)").error().code == Code::Invalid);
    }

    TEST_CASE("tools stay with tool_choice none unless the engine drops them") {
        const std::string source = "{{ tools | tojson }}";
        const std::string fields =
            R"(,"tool_choice":"none","tools":[{"type":"function","function":{"name":"f"}}])";
        CHECK(*render(source, fields) ==
              R"([{"type": "function", "function": {"name": "f", "description": null, )"
              R"("parameters": null}}])");
        CHECK(*render(source, fields, {.drops_tools_on_choice_none = true}) == "null");
        CHECK(*render("{{ tools is none }}", "") == "True");
        CHECK(render(source, R"(,"tools":[{"type":"function"}])").error().code == Code::Invalid);
    }

    TEST_CASE("a request with media is cut where the first of them begins, or refused") {
        CHECK(compiled(kPlain)->render(kImage, {}).error().code == Code::Unsupported);
        RenderInfo info;
        CHECK(*compiled(kPlain)->render(kImage, {}, &info) == "<s><user>one</><user>");
        CHECK(info.is_cut_at_media);
        CHECK(*compiled(kParts)->render(kImage, {}, &info) == "<user>one</><user>two");
        CHECK(compiled("{{ messages | length }}")->render(kImage, {}, &info).error().code ==
              Code::Unsupported);
        RenderInfo plain;
        CHECK(compiled(kPlain)->render(R"({"messages":[{"role":"user","content":"a"}]})", {},
                                       &plain));
        CHECK_FALSE(plain.is_cut_at_media);
    }

    TEST_CASE("the content format is seen through filters, slices, assignments and macros") {
        struct Row {
            const char* source;
            ContentFormat want;
        };
        constexpr auto kString = ContentFormat::String;
        constexpr auto kOpenAi = ContentFormat::OpenAi;
        for (const Row& row :
             {Row{"{{ messages[0].content }}", kString},
              Row{"{% for m in messages %}{{ m.content }}{% endfor %}", kString},
              Row{"{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}",
                  kOpenAi},
              Row{"{% for m in messages %}{% for p in m['content'] | list %}{% endfor %}{% endfor "
                  "%}",
                  kOpenAi},
              Row{"{% set l = messages[1:] %}{% for m in l %}{% for p in m.content %}{% endfor %}"
                  "{% endfor %}",
                  kOpenAi},
              Row{"{% for m in messages %}{% set c = m.content %}{% for p in c %}{% endfor %}"
                  "{% endfor %}",
                  kOpenAi},
              Row{"{% for m in others %}{% for p in m.content %}{% endfor %}{% endfor %}", kString},
              Row{"{% for m in messages %}{% for p in m.tool_calls %}{% endfor %}{% endfor %}",
                  kString},
              Row{"{% macro r(content) %}{% for p in content %}{% endfor %}{% endmacro %}",
                  kString},
              Row{"{% macro r(c) %}{% for p in c %}{% endfor %}{% endmacro %}"
                  "{% for m in messages %}{{ r(m.content) }}{% endfor %}",
                  kOpenAi},
              Row{"{% macro r(a, c) %}{% for p in c %}{% endfor %}{% endmacro %}"
                  "{% for m in messages %}{{ r(m.content, 1) }}{% endfor %}",
                  kString},
              Row{"{% macro r(a, c) %}{% for p in c %}{% endfor %}{% endmacro %}"
                  "{% for m in messages %}{{ r(1, c=m.content) }}{% endfor %}",
                  kOpenAi}}) {
            CAPTURE(row.source);
            CHECK((compiled(row.source)->content_format() == row.want));
        }
    }

    TEST_CASE("a body that is no JSON object, or has fields of the wrong type, is refused") {
        for (const char* body :
             {"", "[]", "{", R"({"messages":{}})", R"({})", R"({"messages":[]})",
              R"({"messages":[{"role":"user"}],"add_generation_prompt":1})",
              R"({"messages":[{"role":"user"}],"tools":{}})", "{\"messages\":\"\xff\"}"}) {
            CAPTURE(body);
            const auto got = compiled(kPlain)->render(body, {});
            REQUIRE_FALSE(got);
            CHECK(got.error().code == Code::Invalid);
        }
    }

    TEST_CASE("a template that is no Jinja does not compile and says where") {
        const auto got = ChatTemplate::compile("a\nb\n{% for %}", {});
        REQUIRE_FALSE(got);
        CHECK(got.error().what.find("line 3") != std::string::npos);
    }
}
