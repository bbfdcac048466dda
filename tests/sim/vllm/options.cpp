#include "tests/sim/vllm/options.hpp"

#include <cstdlib>
#include <optional>

#include "core/base/random.hpp"
#include "tests/sim/support/flags.hpp"
#include "tests/sim/support/json.hpp"

namespace sluice::sim::vllm {
namespace {

class Reader {
public:
    explicit Reader(std::span<const std::string_view> args) : flags_(args) { declare(); }

    Result<Options> run() {
        if (auto s = flags_.read(); !s) {
            return std::move(s).error();
        }
        return finish();
    }

private:
    void declare() {
        flags_.text("--host", o_.host);
        flags_.number("--port", o_.port);
        flags_.text("--model", o_.model);
        flags_.text("--api-key", o_.api_key);
        flags_.text("--sim-version", o_.version);
        declare_pd();
        flags_.text("--tool-call-parser", tool_parser_);
        flags_.text("--reasoning-parser", reasoning_parser_);
        flags_.text("--prefix-caching-hash-algo", o_.hash_algorithm);
        flags_.number("--block-size", o_.engine.cache.block_size, 1, 4096);
        flags_.number("--num-gpu-blocks-override", o_.engine.cache.blocks, 2, 100'000'000);
        flags_.number("--max-model-len", o_.max_model_len, 2, 100'000'000);
        flags_.number("--max-num-seqs", o_.engine.max_num_seqs, 1, 100'000);
        flags_.number("--max-num-batched-tokens", o_.engine.max_batched_tokens, 1);
        flags_.number("--data-parallel-size", o_.data_parallel_size, 1, 64);
        flags_.number("--prefill-us-per-token", o_.engine.prefill_us_per_token, 0, 1'000'000);
        flags_.number("--decode-us-per-token", o_.engine.decode_us_per_token, 0, 60'000'000);
        flags_.number("--eos-after", o_.engine.eos_after);
        flags_.number("--seed", o_.engine.seed);
        flags_.choice("--event-encoding", o_.encoding,
                      {{"array", EventEncoding::Array}, {"map", EventEncoding::Map}});
        flags_.choice("--hash-form", o_.hash_form,
                      {{"int", HashForm::Integer}, {"bytes", HashForm::Bytes}});
        flags_.custom("--served-model-name", [this](std::string_view flag) -> Status {
            for (const auto v : flags_.values()) {
                o_.served_names.emplace_back(v);
            }
            return o_.served_names.empty() ? Status(bad_flag(flag, "needs a name")) : Status();
        });
        flags_.custom("--lora-modules", [this](std::string_view flag) -> Status {
            for (const auto v : flags_.values()) {
                const std::size_t eq = v.find('=');
                if (eq == 0 || eq == std::string_view::npos) {
                    return bad_flag(flag, "name=path expected");
                }
                o_.loras.push_back({static_cast<std::int64_t>(o_.loras.size()) + 1,
                                    std::string(v.substr(0, eq)), std::string(v.substr(eq + 1))});
            }
            return {};
        });
        flags_.custom("--kv-events-config", [this](std::string_view flag) -> Status {
            auto v = flags_.value(flag);
            if (!v) {
                return std::move(v).error();
            }
            auto config = parse_events_config(*v);
            if (!config) {
                return std::move(config).error().at(flag);
            }
            o_.events = std::move(config).value();
            return {};
        });
        for (const auto& [name, target] : std::initializer_list<std::pair<std::string_view, bool*>>{
                 {"prefix-caching", &o_.engine.cache.caches_prefixes},
                 {"prompt-tokens-details", &o_.reports_prompt_details},
                 {"force-include-usage", &o_.forces_usage},
                 {"request-id-headers", &o_.echoes_request_ids},
                 {"server-load-tracking", &o_.tracks_load},
                 {"auto-tool-choice", &auto_tools_}}) {
            flags_.toggle("--enable-" + std::string(name), *target);
            flags_.toggle("--no-enable-" + std::string(name), *target, false);
        }
        flags_.toggle("--no-discovery", o_.offers_discovery, false);
        flags_.toggle("--dev-mode", o_.is_dev_mode);
    }

    void declare_pd() {
        flags_.choice("--kv-connector", o_.engine.pd.connector,
                      {{"nixl", Connector::Nixl},
                       {"lmcache", Connector::Lmcache},
                       {"mooncake", Connector::Mooncake}});
        flags_.text("--pd-version", pd_version_);
        flags_.choice("--kv-load-failure-policy", recomputes_,
                      {{"fail", std::optional(false)}, {"recompute", std::optional(true)}});
        flags_.text("--side-channel-host", o_.side_channel_host);
        flags_.number("--side-channel-port", o_.side_channel_port);
        flags_.number("--bootstrap-port", o_.bootstrap_port);
        flags_.number("--kv-lease-ms", lease_ms_, 1, 86'400'000);
        flags_.number("--kv-connect-ms", connect_ms_, 0, 3'600'000);
    }

    // One release in everything it decides, unless a flag says otherwise.
    Status finish_pd() {
        PdRules& pd = o_.engine.pd;
        if (!pd_version_.empty()) {
            const auto version = vllm::pd_version(pd_version_);
            if (!version) {
                return bad_flag("--pd-version", "a release such as 0.32.0 expected");
            }
            pd.version = *version;
            o_.version = pd_version_;
        }
        pd.lease_us = lease_ms_ != 0 ? std::uint64_t{lease_ms_} * 1000 : pd.usual_lease_us();
        pd.connect_us = std::uint64_t{connect_ms_} * 1000;
        pd.recomputes = recomputes_.value_or(pd.usually_recomputes());
        if (o_.side_channel_host.empty()) {
            o_.side_channel_host = o_.host;
        }
        return {};
    }

    Result<Options> finish() {
        const auto algorithm = algorithm_from(o_.hash_algorithm);
        if (!algorithm) {
            return bad_flag("--prefix-caching-hash-algo", "sha256 or sha256_cbor expected");
        }
        const std::uint64_t room =
            std::uint64_t{o_.engine.cache.blocks - 1} * o_.engine.cache.block_size;
        if (room < o_.max_model_len) {
            return bad_flag("--max-model-len", "does not fit into the KV cache of " +
                                                   std::to_string(room) + " tokens");
        }
        if (auto s = finish_pd(); !s) {
            return std::move(s).error();
        }
        if (!reasoning_parser_.empty() && reasoning_parser_ != "qwen3") {
            return bad_flag("--reasoning-parser", "qwen3 expected");
        }
        if (!tool_parser_.empty() && tool_parser_ != "hermes") {
            return bad_flag("--tool-call-parser", "hermes expected");
        }
        if (o_.served_names.empty()) {
            o_.served_names.push_back(o_.model.empty() ? "sim" : o_.model);
        }
        o_.engine.cache.keeps_content = o_.engine.pd.transfers();
        o_.engine.cache.seed = o_.engine.seed;
        const bool is_old = o_.encoding == EventEncoding::Array;
        o_.engine.cache.algorithm = *algorithm;
        o_.engine.cache.tags_extra_keys = !is_old;
        o_.parses_reasoning = !reasoning_parser_.empty();
        o_.offers_tools = auto_tools_ && !tool_parser_.empty();
        // Unset: a fixed text from 0.29 on, random before.
        const char* seed = std::getenv("PYTHONHASHSEED");
        o_.engine.cache.none_hash = none_hash(*algorithm, seed != nullptr ? seed
                                                          : is_old        ? random_hex_id()
                                                                          : "vllm-none-hash");
        return std::move(o_);
    }

    Flags flags_;
    bool auto_tools_ = false;
    std::string pd_version_;
    std::optional<bool> recomputes_;
    std::uint32_t lease_ms_ = 0;
    std::uint32_t connect_ms_ = 5'000;
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
P/D              --kv-connector nixl|lmcache|mooncake  --pd-version X.Y.Z  --kv-lease-ms N
                 --kv-load-failure-policy fail|recompute  --kv-connect-ms N
                 --side-channel-host IPV4  --side-channel-port N  --bootstrap-port N
)";
}

}  // namespace sluice::sim::vllm
