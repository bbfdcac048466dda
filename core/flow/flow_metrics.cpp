#include "core/flow/flow_metrics.hpp"

#include <array>

namespace sluice::flow {
namespace {

constexpr std::size_t kMaxModels = 64;
constexpr std::size_t kMaxLabel = 64;

std::string label_of(std::string_view model) {
    std::string out(model.substr(0, kMaxLabel));
    for (char& c : out) {
        const bool is_kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' || c == '/';
        if (!is_kept) {
            c = '_';
        }
    }
    return out;
}

std::vector<double> duration_bounds() {
    return {.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300};
}

}  // namespace

FlowMetrics::FlowMetrics()
    : responses_(metrics::registry().counter("loxilb_proxy_http_responses_total",
                                             "Responses sent to clients.")),
      ttfb_(metrics::registry().histogram(
          "loxilb_proxy_http_ttfb_seconds", "From the request's head to the reply's first byte.",
          {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10})),
      all_requests_(metrics::registry().counter("loxilb_requests_total", "Requests of clients.")),
      all_errors_(
          metrics::registry().counter("loxilb_errors_total", "Requests that did not end well.")) {
    // Of the legs of TensorRT-LLM's pools: present from the start.
    metrics::registry().counter("loxilb_pd_trt_ctx_early_exit_total",
                                "Requests that a context endpoint answered to the end.");
    constexpr std::array<const char*, 6> kClasses = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
    for (std::size_t i = 0; i < kClasses.size(); ++i) {
        by_class_[i] = &metrics::registry().counter("loxilb_proxy_http_responses_by_status_total",
                                                    "Responses by class of their status.",
                                                    {{"status_class", kClasses[i]}});
    }
}

FlowMetrics::OfModel& FlowMetrics::of_model(std::string_view model) {
    auto it = models_.find(model);
    if (it == models_.end()) {
        if (models_.size() >= kMaxModels && model != "other") {
            return of_model("other");
        }
        OfModel fresh;
        fresh.label = label_of(model);
        fresh.active_streams = &metrics::registry().gauge(
            "loxilb_ai_active_streams", "Open event streams.", {{"model", fresh.label}});
        fresh.duration = &metrics::registry().histogram("loxilb_ai_request_duration_seconds",
                                                        "Duration of requests.", duration_bounds(),
                                                        {{"model", fresh.label}, {"tenant", ""}});
        it = models_.emplace(std::string(model), std::move(fresh)).first;
    }
    return it->second;
}

FlowMetrics::OfService& FlowMetrics::of_service(std::uint32_t number) {
    OfService& one = services_[number];
    if (one.requests == nullptr) {
        const metrics::Labels labels{{"service", std::to_string(number)}};
        one.requests = &metrics::registry().counter("loxilb_service_requests_total",
                                                    "Requests of clients by rule.", labels);
        one.errors = &metrics::registry().counter(
            "loxilb_service_errors_total", "Requests that did not end well by rule.", labels);
        one.bytes = &metrics::registry().counter("loxilb_service_traffic_bytes_total",
                                                 "Bytes from and to clients by rule.", labels);
    }
    return one;
}

void FlowMetrics::settle(const route::Receipt& receipt, int status, double seconds,
                         double ttfb_seconds, std::uint64_t bytes_to_client,
                         std::uint64_t bytes_from_client) {
    const bool is_error = receipt.outcome != route::Outcome::Ok || status >= 500;
    all_requests_.add();
    if (status != 0) {
        responses_.add();
        const auto group = static_cast<std::size_t>(status / 100);
        by_class_[group >= 1 && group <= 5 ? group : 0]->add();
    }
    if (is_error) {
        all_errors_.add();
    }
    if (ttfb_seconds >= 0) {
        ttfb_.observe(ttfb_seconds);
    }
    if (receipt.rule_number != 0) {
        OfService& service = of_service(receipt.rule_number);
        service.requests->add();
        if (is_error) {
            service.errors->add();
        }
        service.bytes->add(static_cast<double>(bytes_to_client + bytes_from_client));
    }
    OfModel& model = of_model(receipt.model);
    model.duration->observe(seconds);
    const std::uint32_t key =
        static_cast<std::uint32_t>(status) << 8U | static_cast<std::uint32_t>(receipt.outcome);
    metrics::Counter*& counter = model.requests[key];
    if (counter == nullptr) {
        counter = &metrics::registry().counter(
            "loxilb_ai_requests_total", "Requests, once each, by how they ended.",
            {{"model", model.label},
             {"tenant", ""},
             {"status", std::to_string(status)},
             {"outcome", std::string(to_string(receipt.outcome))}});
    }
    counter->add();
}

}  // namespace sluice::flow
