// What a build tells of itself: health, version, model, cache contract, statistics, request schema.
#include <algorithm>
#include <ctime>

#include "tests/sim/trtllm/api_error.hpp"
#include "tests/sim/trtllm/fields.hpp"
#include "tests/sim/trtllm/service.hpp"

namespace sluice::sim::trtllm {
namespace {

http::Response text_reply(int status, std::string body) {
    http::Response r = json_reply(std::move(body));
    r.status = status;
    r.content_type = r.body.empty() ? "" : "text/plain; charset=utf-8";
    return r;
}

http::Response health(Service& s) {
    const int status = s.faults().health();
    return status == 200 || !health_can_fail(s.options().era())
               ? text_reply(200, "")
               : text_reply(status,
                            "LLM is unavailable. Please check the server logs for details.");
}

http::Response models(const Service& s) {
    json::Writer w;
    w.open_object().field("object", "list").key("data").open_array().open_object();
    w.field("id", s.options().served_name).field("object", "model");
    w.field("created", static_cast<std::int64_t>(std::time(nullptr)));
    w.field("owned_by", "tensorrt_llm");
    return json_reply(w.close_object().close_array().close_object().take());
}

http::Response server_info(const Service& s) {
    const Options& o = s.options();
    json::Writer w;
    w.open_object().key("disaggregated_params").open_object().close_object();
    if (tells_cache_contract(o.era())) {
        w.field("max_batch_size", std::uint64_t{o.engine.max_num_seqs});
        w.field("kv_cache_hash_algo", to_string(o.engine.cache.algorithm));
        w.field("tokens_per_block", std::uint64_t{o.configured_tokens_per_block != 0
                                                      ? o.configured_tokens_per_block
                                                      : o.engine.cache.tokens_per_block});
    }
    return json_reply(w.close_object().take());
}

// One object an iteration since the last read, the latest numbers in each.
http::Response iteration_stats(Service& s) {
    ++s.reads().metrics;
    json::Writer w;
    w.open_array();
    const std::uint64_t fresh = s.options().has_iteration_stats ? s.take_iterations() : 0;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(fresh, 1000); ++i) {
        const EngineStats stats = s.engines().front()->stats();
        w.open_object().field("iter", i).field("numActiveRequests", stats.running);
        w.field("numQueuedRequests", stats.waiting).key("kvCacheStats").open_object();
        w.field("maxNumBlocks", s.options().engine.cache.blocks);
        w.field("tokensPerBlock", std::uint64_t{s.options().engine.cache.tokens_per_block});
        w.close_object().close_object();
    }
    return json_reply(w.close_array().take());
}

http::Response perf_metrics(Service& s) {
    ++s.reads().perf_metrics;
    json::Writer w;
    w.open_array();
    for (const std::uint64_t id : s.take_finished()) {
        w.open_object().field("request_id", id).key("perf_metrics").open_object();
        w.close_object().close_object();
    }
    return json_reply(w.close_array().take());
}

http::Response prometheus(Service& s) {
    ++s.reads().prometheus;
    std::uint64_t succeeded = 0;
    std::uint64_t running = 0;
    std::uint64_t waiting = 0;
    double usage = 0;
    for (const auto& e : s.engines()) {
        const EngineStats stats = e->stats();
        succeeded += stats.stopped + stats.cut;
        running += stats.running;
        waiting += stats.waiting;
        usage = std::max(usage, stats.cache_usage);
    }
    const std::string labels = "{engine_type=\"undefined\",model_name=\"undefined\"} ";
    std::string text;
    const auto add = [&](std::string_view name, std::string_view type, const std::string& value) {
        text += "# TYPE " + std::string(name) + " " + std::string(type) + "\n" + std::string(name) +
                labels + value + "\n";
    };
    add("trtllm_request_success_total", "counter",
        json::float_text(static_cast<double>(succeeded)));
    add("trtllm_num_requests_running", "gauge", json::float_text(static_cast<double>(running)));
    add("trtllm_num_requests_waiting", "gauge", json::float_text(static_cast<double>(waiting)));
    add("trtllm_kv_cache_utilization", "gauge", json::float_text(usage));
    http::Response r = text_reply(200, text);
    r.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return r;
}

}  // namespace

http::Response handle_info(Service& s, const http::Request& request) {
    const std::string& path = request.path;
    if (path == "/health") {
        return health(s);
    }
    if (path == "/version") {
        return json_reply(json::Writer()
                              .open_object()
                              .field("version", version_of(s.options().era()))
                              .close_object()
                              .take());
    }
    if (path == "/v1/models") {
        return models(s);
    }
    if (path == "/server_info") {
        return server_info(s);
    }
    if (path == "/metrics") {
        return iteration_stats(s);
    }
    if (path == "/perf_metrics") {
        return perf_metrics(s);
    }
    if (path == "/prometheus/metrics") {
        return prometheus(s);
    }
    return json_reply(openapi(s.options().era()));
}

}  // namespace sluice::sim::trtllm
