#include "tests/sim/vllm/options.hpp"

#include <charconv>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "core/base/random.hpp"
#include "tests/sim/support/json.hpp"

namespace sluice::sim::vllm {
namespace {

Error bad(std::string_view flag, std::string_view why) {
    return Error{Code::Invalid, std::string(flag) + ": " + std::string(why)};
}

template <class N>
Status number(std::string_view flag, std::string_view text, N& out, std::uint64_t least,
              std::uint64_t most) {
    std::uint64_t n = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), n);
    if (text.empty() || r.ec != std::errc() || r.ptr != text.data() + text.size() || n < least ||
        n > most) {
        return bad(flag, "a number from " + std::to_string(least) + " to " + std::to_string(most) +
                             " expected, got '" + std::string(text) + "'");
    }
    out = static_cast<N>(n);
    return {};
}

class Reader {
public:
    explicit Reader(std::span<const std::string_view> args) : args_(args) { declare(); }

    Result<Options> run() {
        while (at_ < args_.size()) {
            std::string_view flag = args_[at_++];
            inline_value_.reset();
            if (const std::size_t eq = flag.find('='); eq != std::string_view::npos) {
                inline_value_ = flag.substr(eq + 1);
                flag = flag.substr(0, eq);
            }
            if (const auto s = switches_.find(flag); s != switches_.end()) {
                *s->second.target = s->second.value;
                continue;
            }
            const auto v = values_.find(flag);
            if (v == values_.end()) {
                return bad(flag, "unknown flag");
            }
            if (auto s = v->second(flag); !s) {
                return std::move(s).error();
            }
        }
        return finish();
    }

private:
    struct Switch {
        bool* target;
        bool value;
    };
    using Take = std::function<Status(std::string_view)>;

    Result<std::string_view> value(std::string_view flag) {
        if (inline_value_) {
            return *inline_value_;
        }
        if (at_ >= args_.size()) {
            return bad(flag, "needs a value");
        }
        return args_[at_++];
    }

    // Values up to the next flag.
    std::vector<std::string_view> values() {
        std::vector<std::string_view> out;
        if (inline_value_) {
            return {*inline_value_};
        }
        while (at_ < args_.size() && args_[at_].substr(0, 2) != "--") {
            out.push_back(args_[at_++]);
        }
        return out;
    }

    template <class N>
    void add_number(std::string_view name, N& out, std::uint64_t least = 0,
                    std::uint64_t most = std::numeric_limits<N>::max()) {
        values_[std::string(name)] = [this, &out, least, most](std::string_view flag) -> Status {
            auto v = value(flag);
            return v ? number(flag, *v, out, least, most) : Status(std::move(v).error());
        };
    }
    void add_text(std::string_view name, std::string& out) {
        values_[std::string(name)] = [this, &out](std::string_view flag) -> Status {
            auto v = value(flag);
            if (!v) {
                return std::move(v).error();
            }
            out = *v;
            return {};
        };
    }
    // One of two words.
    template <class E>
    void add_choice(std::string_view name, E& out, std::string_view a, E is_a, std::string_view b,
                    E is_b) {
        values_[std::string(name)] = [this, &out, a, is_a, b,
                                      is_b](std::string_view flag) -> Status {
            auto v = value(flag);
            if (!v) {
                return std::move(v).error();
            }
            if (*v != a && *v != b) {
                return bad(flag, std::string(a) + " or " + std::string(b) + " expected");
            }
            out = *v == a ? is_a : is_b;
            return {};
        };
    }

    void declare() {
        add_text("--host", o_.host);
        add_number("--port", o_.port);
        add_text("--model", o_.model);
        add_text("--api-key", o_.api_key);
        add_text("--sim-version", o_.version);
        add_text("--kv-connector", o_.kv_connector);
        add_text("--tool-call-parser", tool_parser_);
        add_text("--reasoning-parser", reasoning_parser_);
        add_text("--prefix-caching-hash-algo", o_.hash_algorithm);
        add_number("--block-size", o_.engine.block_size, 1, 4096);
        add_number("--num-gpu-blocks-override", o_.engine.blocks, 2, 100'000'000);
        add_number("--max-model-len", o_.max_model_len, 2, 100'000'000);
        add_number("--max-num-seqs", o_.engine.max_num_seqs, 1, 100'000);
        add_number("--max-num-batched-tokens", o_.engine.max_batched_tokens, 1);
        add_number("--data-parallel-size", o_.data_parallel_size, 1, 64);
        add_number("--prefill-us-per-token", o_.engine.prefill_us_per_token, 0, 1'000'000);
        add_number("--decode-us-per-token", o_.engine.decode_us_per_token, 0, 60'000'000);
        add_number("--eos-after", o_.engine.eos_after);
        add_number("--seed", o_.engine.seed);
        add_choice("--event-encoding", o_.encoding, "array", EventEncoding::Array, "map",
                   EventEncoding::Map);
        add_choice("--hash-form", o_.hash_form, "int", HashForm::Integer, "bytes", HashForm::Bytes);
        values_["--served-model-name"] = [this](std::string_view flag) -> Status {
            for (const auto v : values()) {
                o_.served_names.emplace_back(v);
            }
            return o_.served_names.empty() ? Status(bad(flag, "needs a name")) : Status();
        };
        values_["--lora-modules"] = [this](std::string_view flag) -> Status {
            for (const auto v : values()) {
                const std::size_t eq = v.find('=');
                if (eq == 0 || eq == std::string_view::npos) {
                    return bad(flag, "name=path expected");
                }
                o_.loras.push_back({static_cast<std::int64_t>(o_.loras.size()) + 1,
                                    std::string(v.substr(0, eq)), std::string(v.substr(eq + 1))});
            }
            return {};
        };
        values_["--kv-events-config"] = [this](std::string_view flag) -> Status {
            auto v = value(flag);
            if (!v) {
                return std::move(v).error();
            }
            auto config = parse_events_config(*v);
            if (!config) {
                return std::move(config).error().at(flag);
            }
            o_.events = std::move(config).value();
            return {};
        };
        for (const auto& [name, target] : std::initializer_list<std::pair<std::string_view, bool*>>{
                 {"prefix-caching", &o_.engine.caches_prefixes},
                 {"prompt-tokens-details", &o_.reports_prompt_details},
                 {"force-include-usage", &o_.forces_usage},
                 {"request-id-headers", &o_.echoes_request_ids},
                 {"server-load-tracking", &o_.tracks_load},
                 {"auto-tool-choice", &auto_tools_}}) {
            switches_["--enable-" + std::string(name)] = {target, true};
            switches_["--no-enable-" + std::string(name)] = {target, false};
        }
        switches_["--no-discovery"] = {&o_.offers_discovery, false};
        switches_["--dev-mode"] = {&o_.is_dev_mode, true};
    }

    Result<Options> finish() {
        const auto algorithm = algorithm_from(o_.hash_algorithm);
        if (!algorithm) {
            return bad("--prefix-caching-hash-algo", "sha256 or sha256_cbor expected");
        }
        const std::uint64_t room = std::uint64_t{o_.engine.blocks - 1} * o_.engine.block_size;
        if (room < o_.max_model_len) {
            return bad("--max-model-len",
                       "does not fit into the KV cache of " + std::to_string(room) + " tokens");
        }
        if (!o_.kv_connector.empty() && o_.kv_connector != "nixl") {
            return bad("--kv-connector", "nixl expected");
        }
        if (!reasoning_parser_.empty() && reasoning_parser_ != "qwen3") {
            return bad("--reasoning-parser", "qwen3 expected");
        }
        if (!tool_parser_.empty() && tool_parser_ != "hermes") {
            return bad("--tool-call-parser", "hermes expected");
        }
        if (o_.served_names.empty()) {
            o_.served_names.push_back(o_.model.empty() ? "sim" : o_.model);
        }
        const bool is_old = o_.encoding == EventEncoding::Array;
        o_.engine.algorithm = *algorithm;
        o_.engine.tags_extra_keys = !is_old;
        o_.parses_reasoning = !reasoning_parser_.empty();
        o_.offers_tools = auto_tools_ && !tool_parser_.empty();
        // Unset: a fixed text from 0.29 on, random before.
        const char* seed = std::getenv("PYTHONHASHSEED");
        o_.engine.none_hash = none_hash(*algorithm, seed != nullptr ? seed
                                                    : is_old        ? random_hex_id()
                                                                    : "vllm-none-hash");
        return std::move(o_);
    }

    std::span<const std::string_view> args_;
    std::size_t at_ = 0;
    std::optional<std::string_view> inline_value_;
    std::map<std::string, Switch, std::less<>> switches_;
    std::map<std::string, Take, std::less<>> values_;
    bool auto_tools_ = false;
    std::string tool_parser_;
    std::string reasoning_parser_;
    Options o_;
};

}  // namespace

Result<Options> parse_options(std::span<const std::string_view> args) {
    return Reader(args).run();
}

Result<EventsConfig> parse_events_config(std::string_view json_text) {
    auto parsed = json::parse(json_text);
    const json::Value* v = std::get_if<json::Value>(&parsed);
    if (v == nullptr || v->object() == nullptr) {
        return Error{Code::Invalid, "not a JSON object"};
    }
    EventsConfig out;
    std::string wrong;
    const auto text = [&](std::string_view key, std::string& to) {
        if (const json::Value* m = v->get(key); m != nullptr && m->text() == nullptr) {
            wrong = key;
        } else if (m != nullptr) {
            to = *m->text();
        }
    };
    const auto count = [&](std::string_view key, std::int64_t& to) {
        if (const json::Value* m = v->get(key); m != nullptr && m->integer() == nullptr) {
            wrong = key;
        } else if (m != nullptr) {
            to = *m->integer();
        }
    };
    out.enable_kv_cache_events = v->flag("enable_kv_cache_events", false);
    text("publisher", out.publisher);
    text("endpoint", out.endpoint);
    text("replay_endpoint", out.replay_endpoint);
    text("topic", out.topic);
    count("buffer_steps", out.buffer_steps);
    count("hwm", out.hwm);
    count("max_queue_size", out.max_queue_size);
    if (!wrong.empty()) {
        return Error{Code::Invalid, wrong + " is of the wrong type"};
    }
    if (out.buffer_steps < 1 || out.hwm < 1 || out.max_queue_size < 1) {
        return Error{Code::Invalid, "buffer_steps, hwm and max_queue_size must be positive"};
    }
    return out;
}

std::string_view usage() noexcept {
    return R"(usage: sluice-sim vllm [flags]

Listening        --host IPV4  --port N (0: pick one)  --api-key KEY
Model            --model DIR (tokenizer; none: one token a byte)  --served-model-name NAME...
                 --lora-modules NAME=PATH...  --max-model-len N  --seed N  --eos-after N
Cache            --block-size N  --num-gpu-blocks-override N  --no-enable-prefix-caching
                 --prefix-caching-hash-algo sha256|sha256_cbor (seed: PYTHONHASHSEED)
Speed            --prefill-us-per-token N  --decode-us-per-token N  --max-num-seqs N
                 --max-num-batched-tokens N  --data-parallel-size N
Events           --kv-events-config JSON  --event-encoding array|map  --hash-form int|bytes
                 --no-discovery
Answers          --enable-prompt-tokens-details  --enable-force-include-usage
                 --enable-request-id-headers  --enable-server-load-tracking  --dev-mode
                 --enable-auto-tool-choice --tool-call-parser hermes  --reasoning-parser qwen3
                 --sim-version TEXT
P/D              --kv-connector nixl
)";
}

}  // namespace sluice::sim::vllm
