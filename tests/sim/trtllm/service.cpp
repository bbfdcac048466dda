#include "tests/sim/trtllm/service.hpp"

#include <limits>

#include "core/base/random.hpp"
#include "tests/sim/trtllm/api_error.hpp"

namespace sluice::sim::trtllm {
namespace {

struct Route {
    std::string_view method;
    std::string_view path;
};

constexpr Route kRoutes[] = {
    {"GET", "/health"},           {"GET", "/health_generate"},    {"GET", "/version"},
    {"GET", "/v1/models"},        {"GET", "/server_info"},        {"GET", "/metrics"},
    {"GET", "/perf_metrics"},     {"GET", "/prometheus/metrics"}, {"GET", "/openapi.json"},
    {"POST", "/kv_cache_events"}, {"POST", "/v1/completions"},    {"POST", "/v1/chat/completions"},
    {"GET", "/sim/requests"},     {"DELETE", "/sim/requests"},    {"GET", "/sim/cache"},
    {"GET", "/sim/drains"},       {"DELETE", "/sim/drains"},      {"POST", "/sim/fault"},
    {"DELETE", "/sim/fault"},     {"POST", "/sim/drain_fault"},   {"DELETE", "/sim/drain_fault"},
    {"POST", "/sim/events"},      {"POST", "/sim/skip"},          {"POST", "/sim/reset"},
    {"GET", "/sim/leases"},
};

bool is_offered(std::string_view path, const Options& o) {
    if (path == "/server_info") {
        return has_server_info(o.era());
    }
    if (path == "/perf_metrics") {
        return has_perf_metrics(o.era());
    }
    if (path == "/prometheus/metrics") {
        return has_perf_metrics(o.era()) && o.returns_perf_metrics;
    }
    return true;
}

}  // namespace

Service::Service(Options options)
    : options_(std::move(options)),
      ring_(options_.engine.cache.reuses_blocks ? options_.event_buffer : 0, options_.dp_size),
      desk_(ring_, drain_style(options_.era()), options_.timing, options_.publishes_elsewhere),
      transfer_id_(random_hex_id()),
      transfers_(options_.host, 0,
                 [this](auto& request, auto& exchange) { serve_pull(request, exchange); }) {}

Status Service::start() {
    if (options_.model.empty()) {
        model_ = TextModel::bytes();
    } else {
        auto model = TextModel::load(options_.model);
        if (!model) {
            return std::move(model).error();
        }
        model_ = std::move(model).value();
    }
    for (std::uint32_t rank = 0; rank < options_.dp_size; ++rank) {
        const auto told = options_.dp_size > 1 ? std::optional(rank) : std::nullopt;
        engines_.push_back(std::make_unique<Engine>(options_.engine, *model_, ring_, told));
    }
    return transfers() ? transfers_.listen() : Status{};
}

std::string Service::new_state() const {
    return make_state({options_.host, transfers_.port()}, transfer_id_);
}

// {"id":N,"state":TEXT}: gives the KV held under that id, once; 404 when nothing is, 409 when the
// state is another one's.
void Service::serve_pull(const http::Request& request, http::Exchange& exchange) {
    http::Response reply = json_reply("");
    reply.status = 404;
    const auto parsed = json::parse(request.body.empty() ? "{}" : request.body);
    const auto* body = std::get_if<json::Value>(&parsed);
    const json::Value* id = body == nullptr ? nullptr : body->get("id");
    for (const auto& e : engines_) {
        if (id == nullptr || id->integer() == nullptr) {
            break;
        }
        auto [read, content] =
            e->hand_over(static_cast<std::uint64_t>(*id->integer()), body->text_of("state"));
        if (read != Engine::Read::Unknown) {
            reply.status = read == Engine::Read::Done ? 200 : 409;
            reply.body = packed(content);
            break;
        }
    }
    exchange.send(reply);
}

Engine& Service::pick() {
    const std::size_t first = turn_++ % engines_.size();
    Engine* best = engines_[first].get();
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = 0; i < engines_.size(); ++i) {
        Engine* e = engines_[(first + i) % engines_.size()].get();
        if (const std::uint64_t load = e->load_score(); load < least) {
            least = load;
            best = e;
        }
    }
    return *best;
}

const Lora* Service::adapter(std::int64_t task_id, const std::string& name) {
    const std::lock_guard lock(mu_);
    for (const Lora& l : adapters_) {
        if (l.id == task_id) {
            return &l;
        }
    }
    if (adapters_.size() >= kMaxAdapters) {
        return nullptr;
    }
    return &adapters_.emplace_back(Lora{task_id, name, ""});
}

void Service::note_finished(std::uint64_t id) {
    if (!options_.returns_perf_metrics) {
        return;
    }
    const std::lock_guard lock(mu_);
    finished_.push_back(id);
    if (finished_.size() > kMaxFinished) {
        finished_.pop_front();
    }
}

std::vector<std::uint64_t> Service::take_finished() {
    const std::lock_guard lock(mu_);
    std::vector<std::uint64_t> out(finished_.begin(), finished_.end());
    finished_.clear();
    return out;
}

std::uint64_t Service::take_iterations() {
    std::uint64_t all = 0;
    for (const auto& e : engines_) {
        all += e->stats().iteration_tokens.count;
    }
    const std::lock_guard lock(mu_);
    return all - std::exchange(iterations_read_, all);
}

void Service::handle(http::Request& request, http::Exchange& exchange) {
    record_.add(request);
    std::string_view allowed;
    bool is_match = false;
    for (const Route& r : kRoutes) {
        if (r.path == request.path && is_offered(r.path, options_)) {
            is_match = is_match || r.method == request.method;
            allowed = allowed.empty() ? r.method : allowed;
        }
    }
    if (!is_match) {
        http::Response r =
            allowed.empty() ? detail(404, "Not Found") : detail(405, "Method Not Allowed");
        if (!allowed.empty()) {
            r.extra.emplace_back("allow", allowed);
        }
        return exchange.send(r);
    }
    const std::string& path = request.path;
    if (path == "/kv_cache_events") {
        return desk_.drain(exchange);
    }
    if (path == "/v1/completions") {
        return handle_completions(*this, request, exchange);
    }
    if (path == "/v1/chat/completions") {
        return handle_chat(*this, request, exchange);
    }
    if (path == "/health_generate") {
        return handle_health_generate(*this, exchange);
    }
    exchange.send(path.rfind("/sim/", 0) == 0 ? handle_control(*this, request)
                                              : handle_info(*this, request));
}

}  // namespace sluice::sim::trtllm
