#include "tests/sim/vllm/service.hpp"

#include <algorithm>
#include <charconv>

#include "core/base/random.hpp"
#include "tests/sim/vllm/shapes.hpp"

namespace sluice::sim::vllm {
namespace {

http::Response empty_reply(int status = 200) {
    http::Response r;
    r.status = status;
    r.content_type.clear();
    return r;
}

http::Response json_reply(std::string body) {
    http::Response r;
    r.body = std::move(body);
    return r;
}

struct Route {
    std::string_view method;
    std::string_view path;
    bool is_dev = false;  // development mode only
};

constexpr Route kRoutes[] = {
    {"GET", "/health"},
    {"GET", "/ping"},
    {"POST", "/ping"},
    {"GET", "/version"},
    {"GET", "/load"},
    {"GET", "/metrics"},
    {"GET", "/v1/models"},
    {"GET", "/kv_event_sources"},
    {"POST", "/v1/completions"},
    {"POST", "/v1/chat/completions"},
    {"POST", "/tokenize"},
    {"POST", "/detokenize"},
    {"POST", "/reset_prefix_cache", true},
    {"POST", "/pause", true},
    {"POST", "/resume", true},
    {"GET", "/is_paused", true},
    {"POST", "/sleep", true},
    {"POST", "/wake_up", true},
    {"GET", "/is_sleeping", true},
    {"GET", "/sim/requests"},
    {"DELETE", "/sim/requests"},
    {"GET", "/sim/cache"},
    {"GET", "/sim/leases"},
    {"POST", "/sim/fault"},
    {"DELETE", "/sim/fault"},
};

bool is_offered(const Route& r, const Options& o) {
    return (!r.is_dev || o.is_dev_mode) && (r.path != "/kv_event_sources" || o.offers_discovery);
}

enum class Match { None, OtherMethod, Full };

Match match(const Options& o, std::string_view method, std::string_view path,
            std::string_view& allowed) {
    Match best = Match::None;
    for (const Route& r : kRoutes) {
        if (r.path != path || !is_offered(r, o)) {
            continue;
        }
        // Only /metrics, a mounted application, answers HEAD.
        if (r.method == method || (method == "HEAD" && path == "/metrics")) {
            return Match::Full;
        }
        if (best == Match::None) {
            best = Match::OtherMethod;
            allowed = r.method;
        }
    }
    return best;
}

http::Response redirect(const http::Request& request, const Options& o) {
    const std::string* host = request.header("host");
    http::Response r = empty_reply(307);
    std::string to = "http://" + (host != nullptr ? *host : o.host + ":" + std::to_string(o.port)) +
                     request.path.substr(0, request.path.size() - 1);
    if (!request.query.empty()) {
        to += "?" + request.query;
    }
    r.extra.emplace_back("location", to);
    return r;
}

}  // namespace

Service::Service(Options options) : options_(std::move(options)), started_s_(now_s()) {}

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
    for (std::uint32_t rank = 0; rank < options_.data_parallel_size; ++rank) {
        Publisher* publisher = nullptr;
        if (options_.events.publishes()) {
            publishers_.push_back(std::make_unique<Publisher>(
                Publisher::Options{options_.events, options_.encoding, options_.hash_form,
                                   static_cast<int>(rank), options_.host}));
            publisher = publishers_.back().get();
            if (auto s = publisher->start(); !s) {
                return s;
            }
        }
        engines_.push_back(std::make_unique<Engine>(options_.engine, *model_, publisher));
        const std::uint16_t base = options_.side_channel_port;
        if (auto s = engines_.back()->start_link(
                options_.side_channel_host,
                base == 0 ? base : static_cast<std::uint16_t>(base + rank));
            !s) {
            return s;
        }
    }
    return options_.engine.pd.connector == Connector::Mooncake ? start_bootstrap() : Status();
}

Status Service::start_bootstrap() {
    bootstrap_ = std::make_unique<http::Server>(
        options_.host, options_.bootstrap_port, [this](auto& request, auto& exchange) {
            if (request.path != "/query") {
                return exchange.send(detail(404, "Not Found"));
            }
            json::Writer w;
            w.open_object();
            for (std::size_t rank = 0; rank < engines_.size(); ++rank) {
                const KvLink& link = *engines_[rank]->link();
                w.key(std::to_string(rank)).open_object().field("engine_id", link.engine_id());
                w.key("worker_addr").open_object().field("host", link.host());
                w.field("port", std::uint64_t{link.port()}).close_object().close_object();
            }
            exchange.send(json_reply(w.close_object().take()));
        });
    return bootstrap_->listen();
}

std::variant<Engine*, ApiError> Service::pick(const http::Request& request) const {
    if (const std::string* h = request.header("x-data-parallel-rank")) {
        std::int64_t rank = 0;
        const auto r = std::from_chars(h->data(), h->data() + h->size(), rank);
        if (r.ec == std::errc() && r.ptr == h->data() + h->size()) {
            if (rank < 0 || rank >= static_cast<std::int64_t>(engines_.size())) {
                return refuse("data_parallel_rank " + std::to_string(rank) +
                              " is out of range [0, " + std::to_string(engines_.size()) + ").");
            }
            return engines_[static_cast<std::size_t>(rank)].get();
        }
    }
    const auto it = std::min_element(
        engines_.begin(), engines_.end(),
        [](const auto& a, const auto& b) { return a->load_score() < b->load_score(); });
    return it->get();
}

std::variant<Service::Named, ApiError> Service::find_model(const json::Value& body) const {
    const std::string_view asked = body.text_of("model");
    const auto& names = options_.served_names;
    if (asked.empty() || std::find(names.begin(), names.end(), asked) != names.end()) {
        return Named{names.front(), nullptr};
    }
    for (const Lora& lora : options_.loras) {
        if (lora.name == asked) {
            return Named{lora.name, &lora};
        }
    }
    std::vector<std::string> known = names;
    for (const Lora& lora : options_.loras) {
        known.push_back(lora.name);
    }
    return model_not_found(asked, known);
}

bool Service::is_authorized(const http::Request& request) const {
    if (options_.api_key.empty() || request.path.rfind("/v1", 0) != 0 ||
        request.method == "OPTIONS") {
        return true;
    }
    const std::string* h = request.header("authorization");
    return h != nullptr && *h == "Bearer " + options_.api_key;
}

void Service::handle(http::Request& request, http::Exchange& exchange) {
    record_.add(request);
    if (options_.echoes_request_ids) {
        const std::string* given = request.header("x-request-id");
        exchange.set_request_id(given != nullptr ? *given : random_hex_id());
    }
    if (!is_authorized(request)) {
        return exchange.send(unauthorized());
    }
    std::string_view allowed;
    switch (match(options_, request.method, request.path, allowed)) {
        case Match::Full:
            break;
        case Match::OtherMethod: {
            http::Response r = detail(405, "Method Not Allowed");
            r.extra.emplace_back("allow", allowed);
            return exchange.send(r);
        }
        case Match::None: {
            const std::string bare = request.path.substr(0, request.path.size() - 1);
            const bool has_slash = request.path.size() > 1 && request.path.back() == '/';
            if (has_slash && match(options_, request.method, bare, allowed) != Match::None) {
                return exchange.send(redirect(request, options_));
            }
            return exchange.send(detail(404, "Not Found"));
        }
    }
    const std::string& path = request.path;
    if (path == "/v1/completions") {
        return handle_completions(*this, request, exchange);
    }
    if (path == "/v1/chat/completions") {
        return handle_chat(*this, request, exchange);
    }
    exchange.send(reply(request));
}

http::Response Service::reply(const http::Request& request) {
    const std::string& path = request.path;
    if (path == "/health" || path == "/ping") {
        return empty_reply(faults_.health());
    }
    if (path == "/version") {
        return json_reply(
            json::Writer().open_object().field("version", options_.version).close_object().take());
    }
    if (path == "/load") {
        const std::int64_t n = options_.tracks_load ? load_.load() : 0;
        return json_reply(
            json::Writer().open_object().field("server_load", n).close_object().take());
    }
    if (path == "/v1/models") {
        return handle_models(*this);
    }
    if (path == "/kv_event_sources") {
        return handle_kv_event_sources(*this);
    }
    if (path == "/metrics") {
        return handle_metrics(*this, request);
    }
    if (path == "/tokenize") {
        return handle_tokenize(*this, request);
    }
    if (path == "/detokenize") {
        return handle_detokenize(*this, request);
    }
    if (path.rfind("/sim/", 0) == 0) {
        return handle_control(*this, request);
    }
    return handle_development(*this, request);
}

}  // namespace sluice::sim::vllm
