#include "tests/sim/trtllm/options.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "tests/sim/support/flags.hpp"
#include "tests/sim/support/json.hpp"

namespace sluice::sim::trtllm {
namespace {

enum class AskedHash { Auto, V1, V2, V2Short };

Result<std::vector<PoolName>> pools_from(std::string_view flag, std::string_view list) {
    std::vector<PoolName> out;
    while (!list.empty()) {
        const std::string_view one = list.substr(0, list.find(','));
        list.remove_prefix(std::min(list.size(), one.size() + 1));
        PoolName p{0, static_cast<std::uint32_t>(out.size())};
        const auto r = std::from_chars(one.data(), one.data() + one.size(), p.window);
        if (r.ec != std::errc() || r.ptr != one.data() + one.size() || p.window == 0) {
            return bad_flag(flag, "window sizes separated by commas expected");
        }
        out.push_back(p);
    }
    if (out.empty() || out.size() > 16) {
        return bad_flag(flag, "one to sixteen window sizes expected");
    }
    return out;
}

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
        CacheOptions& cache = o_.engine.cache;
        flags_.text("--host", o_.host);
        flags_.number("--port", o_.port);
        flags_.text("--model", o_.model);
        flags_.text("--served-model-name", o_.served_name);
        flags_.number("--max-seq-len", o_.max_seq_len, 2, 100'000'000);
        flags_.number("--max-batch-size", o_.engine.max_num_seqs, 1, 100'000);
        flags_.number("--max-num-tokens", o_.engine.max_batched_tokens, 1);
        flags_.number("--tokens-per-block", cache.tokens_per_block, 1, 4096);
        flags_.number("--configured-tokens-per-block", o_.configured_tokens_per_block, 1, 4096);
        flags_.number("--blocks", cache.blocks, 1, 100'000'000);
        flags_.number("--host-blocks", cache.host_blocks, 0, 100'000'000);
        flags_.number("--dp-size", o_.dp_size, 1, 64);
        flags_.number("--event-buffer-max-size", o_.event_buffer, 0, 100'000'000);
        flags_.number("--drain-tail-ms", o_.timing.tail_ms, 1, 600'000);
        flags_.number("--prefill-us-per-token", o_.engine.prefill_us_per_token, 0, 1'000'000);
        flags_.number("--decode-us-per-token", o_.engine.decode_us_per_token, 0, 60'000'000);
        flags_.number("--eos-after", o_.engine.eos_after);
        flags_.number("--seed", o_.engine.seed);
        flags_.choice("--manager", cache.manager, {{"v1", Manager::V1}, {"v2", Manager::V2}});
        flags_.choice("--hash-algo", hash_,
                      {{"auto", AskedHash::Auto},
                       {"v1_block_key", AskedHash::V1},
                       {"v2_sha256", AskedHash::V2},
                       {"v2_sha256_64", AskedHash::V2Short}});
        flags_.toggle("--enable-block-reuse", cache.reuses_blocks);
        flags_.toggle("--no-enable-block-reuse", cache.reuses_blocks, false);
        flags_.toggle("--enable-partial-reuse", cache.reuses_partial);
        flags_.toggle("--return-perf-metrics", o_.returns_perf_metrics);
        flags_.toggle("--enable-iter-perf-stats", o_.has_iteration_stats);
        flags_.toggle("--no-cache-transceiver", o_.has_transceiver, false);
        flags_.number("--kv-transfer-timeout-ms", transfer_ms_, 1, 3'600'000);
        flags_.text("--disagg-auth-key", o_.disagg_auth_key);
        flags_.choice("--context-finish", o_.context_finish,
                      {{"auto", ContextFinish::Auto},
                       {"length", ContextFinish::Length},
                       {"not_finished", ContextFinish::NotFinished},
                       {"stop", ContextFinish::Stop}});
        flags_.custom("--era", [this](std::string_view flag) -> Status {
            auto v = flags_.value(flag);
            if (!v) {
                return std::move(v).error();
            }
            const auto era = era_from(*v);
            if (!era) {
                return bad_flag(flag, std::string(words_of_eras()) + " expected");
            }
            o_.engine.cache.era = *era;
            return {};
        });
        flags_.custom("--windows", [this](std::string_view flag) -> Status {
            auto v = flags_.value(flag);
            if (!v) {
                return std::move(v).error();
            }
            auto pools = pools_from(flag, *v);
            if (!pools) {
                return std::move(pools).error();
            }
            o_.engine.cache.pools = std::move(pools).value();
            has_windows_ = true;
            return {};
        });
        flags_.custom("--kv-events-config", [this](std::string_view flag) -> Status {
            auto v = flags_.value(flag);
            if (!v) {
                return std::move(v).error();
            }
            auto parsed = json::parse(*v);
            const json::Value* config = std::get_if<json::Value>(&parsed);
            if (config == nullptr || config->object() == nullptr) {
                return bad_flag(flag, "not a JSON object");
            }
            o_.publishes_elsewhere = config->flag("enable_kv_cache_events", false);
            return {};
        });
    }

    Result<Options> finish() {
        CacheOptions& cache = o_.engine.cache;
        if (cache.manager == Manager::V1 && hash_ > AskedHash::V1) {
            return bad_flag("--hash-algo", "only --manager v2 has v2 hashes");
        }
        if (cache.manager == Manager::V2 && !tells_cache_contract(cache.era)) {
            return bad_flag("--manager", "v2 came with 1.3-late");
        }
        if (o_.publishes_elsewhere && !can_publish_elsewhere(cache.era)) {
            return bad_flag("--kv-events-config", "came with main");
        }
        if (!o_.disagg_auth_key.empty() && !has_disagg_auth(cache.era)) {
            return bad_flag("--disagg-auth-key", "came with main");
        }
        cache.keeps_content = o_.has_transceiver;
        cache.seed = o_.engine.seed;
        o_.engine.transfer_timeout_us = transfer_ms_ * 1000;
        cache.algorithm = hash_ == AskedHash::V2        ? HashAlgorithm::V2Sha256
                          : hash_ == AskedHash::V2Short ? HashAlgorithm::V2Sha256Short
                                                        : HashAlgorithm::V1BlockKey;
        if (!has_windows_) {
            cache.pools.front().window = o_.max_seq_len;
        }
        if (cache.blocks * cache.tokens_per_block < o_.max_seq_len) {
            return bad_flag("--max-seq-len",
                            "does not fit into the KV cache of " +
                                std::to_string(cache.blocks * cache.tokens_per_block) + " tokens");
        }
        if (o_.served_name.empty()) {
            o_.served_name = o_.model.empty() ? "sim" : last_component(o_.model);
        }
        return std::move(o_);
    }

    static std::string last_component(const std::string& model) {
        std::filesystem::path p(model);
        return (p.has_filename() ? p.filename() : p.parent_path().filename()).string();
    }

    Flags flags_;
    AskedHash hash_ = AskedHash::Auto;
    bool has_windows_ = false;
    std::uint64_t transfer_ms_ = 60'000;
    Options o_;
};

}  // namespace

Result<Options> parse_options(std::span<const std::string_view> args) {
    return Reader(args).run();
}

std::string_view usage() noexcept {
    return R"(usage: sluice-sim trtllm [flags]

Build            --era 0.21|1.0|1.1|1.2|1.3-early|1.3-late|main (1.3-late)
Listening        --host IPV4  --port N (0: pick one)
Model            --model DIR (tokenizer; none: one token a byte)  --served-model-name NAME
                 --max-seq-len N  --seed N  --eos-after N
Cache            --tokens-per-block N  --configured-tokens-per-block N (what /server_info says)
                 --blocks N  --host-blocks N  --windows SIZE,...  --manager v1|v2
                 --hash-algo auto|v1_block_key|v2_sha256|v2_sha256_64
                 --no-enable-block-reuse  --enable-partial-reuse
Speed            --prefill-us-per-token N  --decode-us-per-token N  --max-batch-size N
                 --max-num-tokens N  --dp-size N (attention-DP ranks)
Events           --event-buffer-max-size N (0: off)  --kv-events-config JSON (main: elsewhere)
                 --drain-tail-ms N (2000)
Pairs            --no-cache-transceiver  --kv-transfer-timeout-ms N (60000)
                 --context-finish auto|length|not_finished|stop  --disagg-auth-key KEY (main)
Statistics       --return-perf-metrics  --enable-iter-perf-stats
)";
}

}  // namespace sluice::sim::trtllm
