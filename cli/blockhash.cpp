// sluicectl blockhash: the block hashes that an engine would give a prompt, by its plugin.
#include <simdjson.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "cli/engines.hpp"
#include "cli/flags.hpp"
#include "cli/verb.hpp"
#include "core/base/log.hpp"

namespace sluice::cli {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::element;

// 64-bit numbers of every line are exact: nothing goes through a double.
constexpr std::size_t kMaxLineBytes = std::size_t{256} << 20U;
constexpr std::size_t kMaxTokens = std::size_t{1} << 24U;

constexpr FlagSpec kFlags[] = {{"--jsonl", false}, {"--plugins", true}};

std::optional<element> member(const element& line, const char* name) {
    element out;
    const bool is_there = line[name].get(out) == SUCCESS && !out.is_null();
    return is_there ? std::optional(out) : std::nullopt;
}

std::string text_of(const element& line, const char* name) {
    std::string_view out;
    const auto value = member(line, name);
    return value && value->get(out) == SUCCESS ? std::string(out) : std::string();
}

std::string json_of(const element& value) {
    return simdjson::minify(value);
}

// A prompt as the plugins take it.
struct Prompt {
    std::vector<std::uint32_t> tokens;
    std::size_t num_tokens = 0;  // more than tokens has where an id passes 32 bits
    std::uint32_t block_tokens = 0;
    std::string engine, lora, salt, params;
    bool is_wide = false;
};

std::optional<Error> read_block_size(const element& line, const char* name, Prompt& out) {
    std::uint64_t size = 0;
    if (line[name].get(size) != SUCCESS || size == 0 || size > UINT32_MAX) {
        return Error{Code::Invalid, std::string(name) + " is no block size"};
    }
    out.block_tokens = static_cast<std::uint32_t>(size);
    return std::nullopt;
}

// `is_digest_taken`: a text may stand in place of an id; the plugin reads it from the line.
std::optional<Error> read_tokens(const element& line, const char* name, bool is_digest_taken,
                                 Prompt& out) {
    simdjson::dom::array ids;
    if (line[name].get(ids) != SUCCESS) {
        return Error{Code::Invalid, std::string(name) + " is no list of token ids"};
    }
    for (const element id : ids) {
        std::uint64_t number = 0;
        const bool is_number = id.get(number) == SUCCESS;
        if ((!is_number && !(is_digest_taken && id.is_string())) || ++out.num_tokens > kMaxTokens) {
            return Error{Code::Invalid, std::string(name) + " holds what is no token id"};
        }
        out.is_wide = out.is_wide || number > UINT32_MAX;
        out.tokens.push_back(static_cast<std::uint32_t>(number));
    }
    return std::nullopt;
}

// Members: algo, seed, block_size, token_ids, and what is hashed beside the tokens.
std::optional<Error> read_vllm(const element& line, Prompt& out) {
    out.engine = "vllm";
    if (auto wrong = read_block_size(line, "block_size", out)) {
        return wrong;
    }
    if (auto wrong = read_tokens(line, "token_ids", false, out)) {
        return wrong;
    }
    const auto put = [&out](const char* name, const std::string& json) {
        out.params += (out.params.empty() ? "{\"" : ",\"") + std::string(name) + "\":" + json;
    };
    const auto algo = member(line, "algo");
    put("algorithm", algo ? json_of(*algo) : "null");
    // An engine whose seed is not known has a root that a line may name.
    const std::string name = text_of(line, "algo");
    const auto seed = member(line, "seed");
    const bool is_rooted = !seed && name.starts_with("xxhash");
    const auto parent = member(line, "start_parent_hex");
    const auto root = is_rooted && !parent ? member(line, "none_hash_hex") : parent;
    put("seed", seed ? json_of(*seed) : "null");
    if (root) {
        put("parent", json_of(*root));
    }
    if (const auto is_integer = member(line, "parent_is_integer")) {
        put("parent_is_integer", json_of(*is_integer));
    }
    element keys;
    if (line["extra_keys"].get(keys) == SUCCESS) {
        put("extra_keys", json_of(keys));
    }
    // Without them names and salts are hashed in the form of the version.
    const std::string version = text_of(line, "vllm");
    put("key_form",
        version.starts_with("0.31") || version.starts_with("0.32") ? "\"tagged\"" : "\"bare\"");
    if (const auto path = member(line, "lora_path")) {
        put("lora_path", json_of(*path));
    }
    if (out.is_wide) {
        put("token_ids", json_of(line["token_ids"].value()));
    }
    out.params += "}";
    out.lora = text_of(line, "lora_name");
    out.salt = text_of(line, "cache_salt");
    return std::nullopt;
}

// Members: scheme, tokens_per_block, prompt_token_ids, token_rule, and those that the plugin reads.
std::optional<Error> read_trtllm(const element& line, const std::string& text, Prompt& out) {
    out.engine = "trtllm";
    if (auto wrong = read_block_size(line, "tokens_per_block", out)) {
        return wrong;
    }
    if (auto wrong = read_tokens(line, "prompt_token_ids", true, out)) {
        return wrong;
    }
    if (out.is_wide) {
        return Error{Code::Invalid, "prompt_token_ids holds an id of more than 32 bits"};
    }
    const std::string rule = text_of(line, "token_rule");
    if (rule != "" && rule != "all_tokens" && rule != "prompt_minus_last") {
        return Error{Code::Invalid, "token_rule is none of all_tokens, prompt_minus_last"};
    }
    if (rule == "prompt_minus_last" && out.num_tokens > 0) {
        out.tokens.pop_back();
        out.num_tokens -= 1;
    }
    out.params = text;
    return std::nullopt;
}

Result<std::vector<std::uint64_t>> hash(Engines& engines, const Prompt& prompt) {
    const auto engine = engines.find(prompt.engine);
    if (!engine) {
        return engine.error();
    }
    const auto borrow = [](const std::string& s) {
        return sluice_str{s.data(), s.size()};
    };
    sluice_hash_input in{};
    in.size = sizeof in;
    in.block_tokens = prompt.block_tokens;
    in.tokens = prompt.tokens.data();
    in.num_tokens = prompt.num_tokens;
    in.lora = borrow(prompt.lora);
    in.salt = borrow(prompt.salt);
    in.params = borrow(prompt.params);
    std::vector<std::uint64_t> out(prompt.num_tokens / prompt.block_tokens);
    auto num = (*engine)->hash_blocks(in, out);
    if (!num) {
        return num.error();
    }
    out.resize(*num);
    return out;
}

Result<std::vector<std::uint64_t>> answer(Engines& engines, const element& line,
                                          const std::string& text) {
    Prompt prompt;
    std::optional<Error> wrong;
    if (member(line, "scheme")) {
        wrong = read_trtllm(line, text, prompt);
    } else if (member(line, "algo")) {
        wrong = read_vllm(line, prompt);
    } else {
        wrong = Error{Code::Invalid, "a line needs algo (vllm) or scheme (trtllm)"};
    }
    if (wrong) {
        return *wrong;
    }
    return hash(engines, prompt);
}

std::string answer_line(Engines& engines, const std::string& text, bool& is_good) {
    simdjson::dom::parser parser(kMaxLineBytes);
    element line;
    std::string out = "{\"id\":";
    const bool is_read = parser.parse(text).get(line) == SUCCESS && line.is_object();
    element id;
    out += is_read && line["id"].get(id) == SUCCESS ? json_of(id) : "null";
    const auto hashes = is_read ? answer(engines, line, text)
                                : Result<std::vector<std::uint64_t>>(
                                      Error{Code::Invalid, "the line is no JSON object"});
    if (!hashes) {
        is_good = false;
        std::string quoted;
        for (const char c : hashes.error().what) {
            quoted += c == '"' || c == '\\' ? "\\" : "";
            quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
        return out + ",\"error\":\"" + quoted + "\"}\n";
    }
    out += ",\"hashes\":[";
    for (std::size_t i = 0; i < hashes->size(); ++i) {
        out += (i > 0 ? ",\"" : "\"") + std::to_string((*hashes)[i]) + "\"";
    }
    return out + "]}\n";
}

std::vector<std::string> split(std::string_view list) {
    std::vector<std::string> out;
    while (!list.empty()) {
        const std::size_t colon = list.find(':');
        if (colon != 0) {
            out.emplace_back(list.substr(0, colon));
        }
        list.remove_prefix(colon == std::string_view::npos ? list.size() : colon + 1);
    }
    return out;
}

int run(std::span<const std::string_view> args) {
    const auto flags = Flags::parse(args, kFlags);
    if (!flags) {
        return usage_error(kBlockhash, flags.error().what);
    }
    if (!flags->has("--jsonl")) {
        return usage_error(kBlockhash, "--jsonl is needed");
    }
    if (!flags->positional().empty() && !flags->has("--plugins")) {
        return usage_error(kBlockhash,
                           "unexpected argument " + std::string(flags->positional()[0]));
    }
    std::vector<std::string> more = split(flags->value("--plugins").value_or(""));
    more.insert(more.end(), flags->positional().begin(), flags->positional().end());
    log::set_level(log::Level::Error);
    Engines engines(Engines::folders(more));
    if (const Status started = engines.start(); !started) {
        std::fprintf(stderr, "sluicectl blockhash: %s\n", started.error().what.c_str());
        return kFailed;
    }
    std::ios::sync_with_stdio(false);
    std::string line;
    bool is_good = true;
    while (std::getline(std::cin, line)) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) {
            continue;
        }
        const std::string out = answer_line(engines, line, is_good);
        std::cout.write(out.data(), static_cast<std::streamsize>(out.size()));
    }
    std::cout.flush();
    if (!std::cout) {
        std::fprintf(stderr, "sluicectl blockhash: the output cannot be written\n");
        return kFailed;
    }
    return is_good ? kOk : kFailed;
}

}  // namespace

const Verb kBlockhash = {
    "blockhash", "an engine's own block hashes of token ids, by its plugin",
    "Usage: sluicectl blockhash --jsonl [--plugins DIR[:DIR] [DIR...]]\n"
    "\n"
    "Reads one JSON object a line from standard input and writes {\"id\", \"hashes\"} for each:\n"
    "the 64-bit hashes of its full blocks as decimal texts, or {\"id\", \"error\"}.\n"
    "  {\"id\", \"algo\", \"seed\", \"block_size\", \"token_ids\", \"extra_keys\", ...}\n"
    "      vllm; also start_parent_hex, parent_is_integer, and without extra_keys vllm (the\n"
    "      version), lora_name, lora_path and cache_salt. A seed of null is none.\n"
    "  {\"id\", \"scheme\", \"manager\", \"tokens_per_block\", \"prompt_token_ids\", "
    "\"token_rule\", ...}\n"
    "      trtllm; also lora_task_id, cache_salt_id, cache_salt, salt_derivation,\n"
    "      uses_extra_ids, token_extra_ids and mm_keys_per_block. With the token rule\n"
    "      prompt_minus_last the last id is left out.\n"
    "\n"
    "  --jsonl        the form of input and output\n"
    "  --plugins DIR  folders with engine plugins, after those where sluiced finds its own\n",
    run};

}  // namespace sluice::cli
