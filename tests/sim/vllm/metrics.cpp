// GET /metrics: the vllm: families of 0.32, one sample a rank.
//
// What this engine does not do (media, remote caches, preemption histograms and the like) is there
// with the value zero, as in an engine that never did it.
#include <array>
#include <functional>

#include "tests/sim/vllm/service.hpp"

namespace sluice::sim::vllm {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Exposition {
public:
    explicit Exposition(std::string model) : model_(std::move(model)) {}

    void family(std::string_view name, std::string_view kind) {
        text_ += "# HELP vllm:" + std::string(name) +
                 " Simulated.\n# TYPE vllm:" + std::string(name) + " " + std::string(kind) + "\n";
    }
    // Labels come sorted by name, as the engine's do.
    void sample(std::string_view name, std::size_t rank, double v, const Labels& before = {},
                const Labels& after = {}) {
        text_ += "vllm:" + std::string(name) + "{";
        Labels all = before;
        all.emplace_back("engine", std::to_string(rank));
        all.insert(all.end(), after.begin(), after.end());
        write_labels(all);
        text_ += "} " + json::float_text(v) + "\n";
    }
    void bare(std::string_view name, const Labels& labels, double v) {
        text_ += "vllm:" + std::string(name) + "{";
        write_labels(labels);
        text_ += "} " + json::float_text(v) + "\n";
    }
    const std::string& model() const { return model_; }
    std::string take() { return std::move(text_); }

private:
    void write_labels(const Labels& all) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            text_ += (i == 0 ? "" : ",") + all[i].first + "=\"" + all[i].second + "\"";
        }
    }
    std::string model_;
    std::string text_;
};

using Stats = std::vector<EngineStats>;
using Number = std::function<double(const EngineStats&)>;

double zero(const EngineStats&) {
    return 0;
}

void simple(Exposition& out, const Stats& stats, std::string_view name, const Number& value,
            const Labels& after = {}) {
    Labels labels{{"model_name", out.model()}};
    labels.insert(labels.end(), after.begin(), after.end());
    for (std::size_t r = 0; r < stats.size(); ++r) {
        out.sample(name, r, value(stats[r]), {}, labels);
    }
}

void gauge(Exposition& out, const Stats& stats, std::string_view name, const Number& value) {
    out.family(name, "gauge");
    simple(out, stats, name, value);
}

// A counter and the gauge that says since when it counts.
void counter(Exposition& out, const Stats& stats, const std::string& base, const Number& value,
             const std::vector<Labels>& variants = {{}}, double created = 0) {
    out.family(base + "_total", "counter");
    for (const Labels& labels : variants) {
        simple(out, stats, base + "_total", value, labels);
    }
    out.family(base + "_created", "gauge");
    for (const Labels& labels : variants) {
        simple(out, stats, base + "_created", [created](const auto&) { return created; }, labels);
    }
}

using Pick = std::function<const Distribution&(const EngineStats&)>;

void histogram(Exposition& out, const Stats& stats, const std::string& name, const Pick& pick,
               double created) {
    out.family(name, "histogram");
    const Labels model{{"model_name", out.model()}};
    for (std::size_t r = 0; r < stats.size(); ++r) {
        const Distribution& d = pick(stats[r]);
        double below = 0;
        for (std::size_t i = 0; i < d.counts.size(); ++i) {
            below += static_cast<double>(d.counts[i]);
            const std::string le = i < d.bounds->size() ? json::float_text((*d.bounds)[i]) : "+Inf";
            out.sample(name + "_bucket", r, below, {}, {{"le", le}, {"model_name", out.model()}});
        }
        out.sample(name + "_count", r, static_cast<double>(d.count), {}, model);
        out.sample(name + "_sum", r, d.sum, {}, model);
    }
    out.family(name + "_created", "gauge");
    for (std::size_t r = 0; r < stats.size(); ++r) {
        out.sample(name + "_created", r, created, {}, model);
    }
}

std::string python(bool b) {
    return b ? "True" : "False";
}

void cache_config(Exposition& out, const Options& o) {
    out.family("cache_config_info", "gauge");
    // With data parallelism the number of blocks is the sum over ranks, in every rank's sample.
    const std::uint64_t all = std::uint64_t{o.engine.cache.blocks} * o.data_parallel_size;
    const std::uint64_t tokens = std::uint64_t{o.engine.cache.blocks} * o.engine.cache.block_size;
    const double concurrency = static_cast<double>(tokens) / o.max_model_len;
    for (std::uint32_t rank = 0; rank < o.data_parallel_size; ++rank) {
        out.bare("cache_config_info",
                 {{"_block_size_resolved", "True"},
                  {"block_size", std::to_string(o.engine.cache.block_size)},
                  {"cache_dtype", "auto"},
                  {"effective_attention_block_size", std::to_string(o.engine.cache.block_size)},
                  {"enable_prefix_caching", python(o.engine.cache.caches_prefixes)},
                  {"engine", std::to_string(rank)},
                  {"gpu_memory_utilization", "0.92"},
                  {"hash_block_size", "None"},
                  {"is_attention_free", "False"},
                  {"kv_cache_max_concurrency", json::float_text(concurrency)},
                  {"kv_cache_size_tokens", std::to_string(tokens)},
                  {"num_cpu_blocks", "None"},
                  {"num_gpu_blocks", std::to_string(all)},
                  {"num_gpu_blocks_override", std::to_string(o.engine.cache.blocks)},
                  {"prefix_caching_hash_algo", o.hash_algorithm},
                  {"sliding_window", "None"},
                  {"user_specified_block_size", "True"}},
                 1);
    }
}

void gauges(Exposition& out, const Stats& stats) {
    const auto running = [](const auto& s) {
        return static_cast<double>(s.running);
    };
    const auto waiting = [](const auto& s) {
        return static_cast<double>(s.waiting);
    };
    gauge(out, stats, "num_requests_running", running);
    gauge(out, stats, "num_requests_waiting", waiting);
    out.family("num_requests_waiting_by_reason", "gauge");
    simple(out, stats, "num_requests_waiting_by_reason", waiting, {{"reason", "capacity"}});
    simple(out, stats, "num_requests_waiting_by_reason", zero, {{"reason", "deferred"}});
    gauge(out, stats, "kv_cache_usage_perc", [](const auto& s) { return s.cache_usage; });
}

void sleep_state(Exposition& out, const Stats& stats, bool is_asleep) {
    out.family("engine_sleep_state", "gauge");
    for (const auto& [state, value] : std::array<std::pair<std::string_view, bool>, 3>{
             {{"awake", !is_asleep}, {"weights_offloaded", is_asleep}, {"discard_all", false}}}) {
        simple(out, stats, "engine_sleep_state", [v = value](const auto&) { return v ? 1.0 : 0.0; },
               {{"sleep_state", std::string(state)}});
    }
}

void finished(Exposition& out, const Stats& stats, double created) {
    out.family("request_success_total", "counter");
    const auto count = [](const EngineStats& s, std::string_view reason) {
        return reason == "stop"     ? static_cast<double>(s.stopped)
               : reason == "length" ? static_cast<double>(s.cut)
               : reason == "error"  ? static_cast<double>(s.failed)
                                    : 0.0;
    };
    for (const std::string_view reason : {"stop", "length", "abort", "error", "repetition"}) {
        for (std::size_t r = 0; r < stats.size(); ++r) {
            out.sample("request_success_total", r, count(stats[r], reason), {},
                       {{"finished_reason", std::string(reason)}, {"model_name", out.model()}});
        }
    }
    out.family("request_success_created", "gauge");
    for (const std::string_view reason : {"stop", "length", "abort", "error", "repetition"}) {
        for (std::size_t r = 0; r < stats.size(); ++r) {
            out.sample("request_success_created", r, created, {},
                       {{"finished_reason", std::string(reason)}, {"model_name", out.model()}});
        }
    }
}

void counters(Exposition& out, const Stats& stats, double created) {
    const auto number = [](std::uint64_t EngineStats::* member) {
        return [member](const EngineStats& s) {
            return static_cast<double>(s.*member);
        };
    };
    const auto add = [&](const std::string& base, const Number& n) {
        counter(out, stats, base, n, {{}}, created);
    };
    add("prefix_cache_queries", number(&EngineStats::cache_queries));
    add("prefix_cache_hits", number(&EngineStats::cache_hits));
    add("external_prefix_cache_queries", number(&EngineStats::external_queries));
    add("external_prefix_cache_hits", number(&EngineStats::external_hits));
    for (const char* unused : {"mm_cache_queries", "mm_cache_hits"}) {
        add(unused, zero);
    }
    add("num_preemptions", number(&EngineStats::preemptions));
    add("prompt_tokens", number(&EngineStats::prompt_tokens));
    add("prompt_tokens_cached", number(&EngineStats::cache_hits));
    add("generation_tokens", number(&EngineStats::generation_tokens));
    out.family("prompt_tokens_by_source_total", "counter");
    simple(out, stats, "prompt_tokens_by_source_total",
           [](const auto& s) {
               return static_cast<double>(s.prompt_tokens) - static_cast<double>(s.cache_hits) -
                      static_cast<double>(s.external_hits);
           },
           {{"source", "local_compute"}});
    simple(out, stats, "prompt_tokens_by_source_total", number(&EngineStats::cache_hits),
           {{"source", "local_cache_hit"}});
    simple(out, stats, "prompt_tokens_by_source_total", number(&EngineStats::external_hits),
           {{"source", "external_kv_transfer"}});
    finished(out, stats, created);
    out.family("admission_rejections_total", "counter");
    for (const char* reason : {"max_num_queued_reqs", "max_num_queued_tokens"}) {
        out.bare("admission_rejections_total", {{"model_name", out.model()}, {"reason", reason}},
                 0);
    }
}

// Only an engine with the connector has them; the last two appeared with leases.
void transfers(Exposition& out, const Stats& stats, double created) {
    const auto add = [&](const std::string& base, std::uint64_t EngineStats::* member) {
        counter(
            out, stats, base,
            [member](const EngineStats& s) { return static_cast<double>(s.*member); }, {{}},
            created);
    };
    add("nixl_num_failed_transfers", &EngineStats::failed_transfers);
    add("nixl_num_kv_expired_reqs", &EngineStats::kv_expired);
    add("nixl_num_notifications_after_expiry", &EngineStats::late_notices);
}

void histograms(Exposition& out, const Stats& stats, double created) {
    const auto add = [&](const char* name, const Distribution EngineStats::* member) {
        histogram(
            out, stats, name,
            [member](const EngineStats& s) -> const Distribution& { return s.*member; }, created);
    };
    add("request_prompt_tokens", &EngineStats::request_prompt_tokens);
    add("request_generation_tokens", &EngineStats::request_generation_tokens);
    add("iteration_tokens_total", &EngineStats::iteration_tokens);
    add("time_to_first_token_seconds", &EngineStats::first_token_s);
    add("inter_token_latency_seconds", &EngineStats::inter_token_s);
    add("e2e_request_latency_seconds", &EngineStats::e2e_s);
    add("request_queue_time_seconds", &EngineStats::queue_s);
    add("request_prefill_time_seconds", &EngineStats::prefill_s);
    add("request_decode_time_seconds", &EngineStats::decode_s);
}

}  // namespace

http::Response handle_metrics(const Service& s, const http::Request& request) {
    http::Response r;
    if (request.method == "HEAD") {
        r.content_type = "text/plain; version=0.0.4; charset=utf-8";
        r.sends_length = false;
        return r;
    }
    Stats stats;
    for (const auto& e : s.engines()) {
        stats.push_back(e->stats());
    }
    Exposition out(s.options().served_names.front());
    const auto created = static_cast<double>(s.started_s());
    gauges(out, stats);
    sleep_state(out, stats, s.is_asleep());
    counters(out, stats, created);
    histograms(out, stats, created);
    if (s.options().engine.pd.connector == Connector::Nixl) {
        transfers(out, stats, created);
    }
    cache_config(out, s.options());
    r.content_type = "text/plain; version=1.0.0; charset=utf-8";
    r.body = out.take();
    return r;
}

}  // namespace sluice::sim::vllm
