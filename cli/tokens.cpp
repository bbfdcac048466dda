// sluicectl tokens: what a text or a chat request becomes with a model's own files.
#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>

#include "cli/flags.hpp"
#include "cli/verb.hpp"
#include "core/tokens/jinja/json.hpp"
#include "core/tokens/model.hpp"

namespace sluice::cli {
namespace {

using tokens::Arena;
using tokens::Value;
using tokens::jinja::append_json_string;
using tokens::jinja::dump_json;

constexpr std::size_t kMaxLineBytes = std::size_t{256} << 20U;

constexpr FlagSpec kFlags[] = {
    {"--dir", true}, {"--jsonl", false}, {"--now", true}, {"--engine", true}};

// "2025-03-07T09:05:03", taken as local time of wherever; a space may stand for the T.
std::optional<std::tm> parse_time(std::string text) {
    if (text.size() > 10 && text[10] == ' ') {
        text[10] = 'T';
    }
    std::tm t{};
    const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &t);
    if (end == nullptr || (*end != '\0' && std::string_view(end) != "Z")) {
        return std::nullopt;
    }
    timegm(&t);  // sets the day of the week and of the year
    return t;
}

void append_error(std::string& out, const Error& error) {
    out += ", \"error\": ";
    append_json_string(out, error.what, true);
    out += ", \"code\": ";
    // A chat template's own refusals are "invalid"; the rest is not the request's fault.
    append_json_string(out, to_string(error.code), true);
}

void append_ids(std::string& out, const std::vector<tokens::TokenId>& ids) {
    out += ", \"ids\": [";
    for (std::size_t i = 0; i < ids.size(); ++i) {
        out += (i > 0 ? ", " : "") + std::to_string(ids[i]);
    }
    out += "]";
}

// The body of the chat request that a line describes.
std::string chat_body(const Value& line) {
    static constexpr struct {
        std::string_view from;
        std::string_view to;
    } kFields[] = {{"messages", "messages"},
                   {"tools", "tools"},
                   {"documents", "documents"},
                   {"kwargs", "chat_template_kwargs"},
                   {"chat_template_kwargs", "chat_template_kwargs"},
                   {"reasoning_effort", "reasoning_effort"},
                   {"tool_choice", "tool_choice"},
                   {"add_generation_prompt", "add_generation_prompt"},
                   {"continue_final_message", "continue_final_message"}};
    std::string out = "{";
    for (const auto& field : kFields) {
        if (const Value* v = find(*line.dict, field.from)) {
            out += out.size() > 1 ? ", " : "";
            append_json_string(out, field.to, true);
            out += ": ";
            Value culprit;
            dump_json(out, *v, {}, kMaxLineBytes, culprit);
        }
    }
    return out + "}";
}

// One line of output for one line of input, without the braces and the id.
void answer(const tokens::Model& model, const tokens::ChatOptions& options, const Value& line,
            std::string& out) {
    std::vector<tokens::TokenId> ids;
    const Value* text = find(*line.dict, "text");
    const Value* special = find(*line.dict, "add_special_tokens");
    const bool adds_special = special != nullptr && truthy(*special);
    if (text != nullptr && text->is_string()) {
        if (const auto status = model.tokenizer().encode(text->str(), adds_special, ids); !status) {
            append_error(out, status.error());
            return;
        }
        append_ids(out, ids);
        return;
    }
    if (find(*line.dict, "messages") == nullptr) {
        append_error(out, Error{Code::Invalid, "a line needs a text or messages"});
        return;
    }
    auto prompt = model.render_template(chat_body(line), options);
    if (!prompt) {
        append_error(out, prompt.error());
        return;
    }
    out += ", \"rendered\": ";
    append_json_string(out, *prompt, true);
    if (const auto status = model.tokenizer().encode(*prompt, adds_special, ids); !status) {
        append_error(out, status.error());
        return;
    }
    append_ids(out, ids);
}

int run(std::span<const std::string_view> args) {
    const auto flags = Flags::parse(args, kFlags);
    if (!flags) {
        return usage_error(kTokens, flags.error().what);
    }
    if (!flags->positional().empty()) {
        return usage_error(kTokens, "unexpected argument " + std::string(flags->positional()[0]));
    }
    const auto dir = flags->value("--dir");
    if (!dir || !flags->has("--jsonl")) {
        return usage_error(kTokens, dir ? "--jsonl is needed" : "--dir is needed");
    }
    tokens::ChatOptions options;
    if (const auto now = flags->value("--now")) {
        options.clock.fixed = parse_time(std::string(*now));
        if (!options.clock.fixed) {
            return usage_error(kTokens, "--now expects a time like 2025-03-07T09:05:03");
        }
    }
    if (const auto engine = flags->value("--engine")) {
        if (*engine != "vllm" && *engine != "trtllm") {
            return usage_error(kTokens, "--engine expects vllm or trtllm");
        }
        options.engine = *engine == "vllm" ? tokens::ChatEngine::Vllm : tokens::ChatEngine::TrtLlm;
    }
    const auto model = tokens::Model::load(std::filesystem::path(*dir));
    if (!model) {
        std::fprintf(stderr, "sluicectl tokens: %s: %s\n", std::string(*dir).c_str(),
                     model.error().what.c_str());
        return kFailed;
    }
    std::ios::sync_with_stdio(false);
    std::string line;
    bool is_all_read = true;
    while (std::getline(std::cin, line)) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) {
            continue;
        }
        std::string out;
        Arena arena(kMaxLineBytes);
        const auto parsed = tokens::jinja::parse_json(arena, line);
        if (!parsed) {
            is_all_read = false;
            append_error(out, parsed.error());
            out.replace(0, 2, "{");
        } else {
            const Value* id = find(*parsed->dict, "id");
            out = "{\"id\": ";
            Value culprit;
            tokens::jinja::JsonStyle style;
            style.ensure_ascii = true;
            dump_json(out, id != nullptr ? *id : Value::none(), style, kMaxLineBytes, culprit);
            answer(**model, options, *parsed, out);
        }
        out += "}\n";
        std::cout.write(out.data(), static_cast<std::streamsize>(out.size()));
    }
    std::cout.flush();
    if (!std::cout) {
        std::fprintf(stderr, "sluicectl tokens: the output cannot be written\n");
        return kFailed;
    }
    return is_all_read ? kOk : kFailed;
}

}  // namespace

const Verb kTokens = {
    "tokens", "token ids and rendered prompts with a model's own files",
    "Usage: sluicectl tokens --dir MODELDIR --jsonl [--now TIME] [--engine vllm|trtllm]\n"
    "\n"
    "Reads one JSON object a line from standard input and writes one for each:\n"
    "  {\"id\", \"text\", \"add_special_tokens\"}  gives  {\"id\", \"ids\"}\n"
    "  {\"id\", \"messages\", ...}              gives  {\"id\", \"rendered\", \"ids\"}\n"
    "A line that fails gives {\"id\", \"error\", \"code\"}. Chat lines may have tools, documents,\n"
    "kwargs (chat_template_kwargs), add_generation_prompt, continue_final_message,\n"
    "reasoning_effort and tool_choice, as in a request.\n"
    "\n"
    "  --dir MODELDIR   has tokenizer.json, and tokenizer_config.json or chat_template.jinja\n"
    "  --jsonl          the form of input and output\n"
    "  --now TIME       what strftime_now() tells, like 2025-03-07T09:05:03; else the clock\n"
    "  --engine NAME    whose message preprocessing is followed: vllm (default) or trtllm\n",
    run};

}  // namespace sluice::cli
