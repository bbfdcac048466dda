// Any bytes as a template, and any bytes as a request through templates that use the whole
// language.
//
// The first byte chooses. A template is rendered with a fixed request, small steps and memory; a
// request goes through message shaping and two templates. Nothing may crash, hang or leak, and what
// renders twice renders to the same text.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "core/tokens/chat.hpp"
#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/json.hpp"
#include "core/tokens/jinja/parser.hpp"

using namespace sluice::tokens;

namespace {

constexpr std::string_view kVariables =
    R"({"messages":[{"role":"system","content":"S é"},{"role":"user","content":"u\n v "},)"
    R"({"role":"assistant","content":"<think>x</think>y","tool_calls":[{"id":"c","function":)"
    R"({"arguments":{"b":1,"a":[1.5,null,true]},"name":"f"},"type":"function"}]}],)"
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],)"
    R"("x":7,"s":"text ß","d":{"k":"v"},"l":[3,1,2],"n":null})";

constexpr const char* kTemplates[] = {
    "{% macro show(c) %}{% if c is string %}{{ c | trim }}{% else %}{% for p in c %}{{ p.text }}"
    "{% endfor %}{% endif %}{% endmacro %}{% set ns = namespace(n=0) %}{% for m in messages %}"
    "{% set ns.n = ns.n + 1 %}<{{ m.role }}>{{ show(m.content) }}{{ m | tojson }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}"
    "{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}{% endfor %}"
    "{% endfor %}{{ tools | tojson(indent=2) }}{{ documents }}",
    "{% for m in messages %}{% for p in m.content %}{{ p['text'].split('\\n')[-1] }}{% endfor %}"
    "{{ loop.previtem.role }}{{ m.reasoning_content | default('') | upper }}{% endfor %}"
    "{% for t in tools %}{{ t.function.name ~ t.function.description }}"
    "{% for k, v in t.function.parameters.properties | dictsort %}{{ k | title }}: {{ v.type }}"
    "{% endfor %}{% endfor %}"};

void render_any(std::string_view source) {
    const auto program = jinja::parse(source);
    if (!program) {
        return;
    }
    std::string first;
    for (int round = 0; round < 2; ++round) {
        Arena arena(std::size_t{4} << 20U);
        const auto variables = jinja::parse_json(arena, kVariables);
        std::tm clock{};
        clock.tm_mday = 1;
        const std::optional<std::tm> fixed = clock;
        jinja::Interp in(**program, arena, {200'000, std::size_t{1} << 20U}, fixed);
        for (const DictEntry& e : variables->dict->view()) {
            in.set_variable(e.key.str(), e.value);
        }
        const auto out = in.run();
        const std::string text = out ? "ok" + *out : "failed" + out.error().what;
        if (round == 1 && text != first) {
            std::abort();
        }
        first = text;
    }
}

void render_request(std::string_view body) {
    static const auto compiled = [] {
        std::array<std::shared_ptr<const ChatTemplate>, std::size(kTemplates)> out;
        for (std::size_t i = 0; i < out.size(); ++i) {
            auto one = ChatTemplate::compile(kTemplates[i], {{"bos_token", "<s>"}});
            if (!one) {
                std::abort();
            }
            out[i] = *one;
        }
        return out;
    }();
    for (const auto& one : compiled) {
        for (const ChatEngine engine : {ChatEngine::Vllm, ChatEngine::TrtLlm}) {
            ChatOptions options;
            options.engine = engine;
            RenderInfo info;
            (void)one->render(body, options, &info);  // any outcome will do, but it must return
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    if (data[0] % 2 == 0) {
        render_any(rest);
    } else {
        render_request(rest);
    }
    return 0;
}
