// Prometheus exposition, who may read it, and the switch of it.
#include "core/base/metrics.hpp"
#include "core/admin/exposition.hpp"
#include "core/admin/lookup.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

constexpr std::string_view kMetricsSetting = "prometheus";

bool metrics_are_on(const Context& context) {
    return context.node->knobs.metrics() != MetricsAccess::Off &&
           context.book.setting(kMetricsSetting).value_or("on") == "on";
}

Response switch_metrics(Context& context, const Request& request, bool on) {
    const std::lock_guard lock(context.node->switch_mu);
    if (on && context.node->knobs.metrics() == MetricsAccess::Off) {
        return refusal_response({409, "metrics_off", "",
                                 "the configuration turns metrics off: [api] metrics",
                                 "metrics = open or token"});
    }
    if (metrics_are_on(context) == on) {
        return json_response(Json::Object{
            {"result", on ? "Prometheus already enabled" : "Prometheus already disabled"}});
    }
    const auto refusal =
        context.book.set(kMetricsSetting, on ? "on" : "off", {request.actor, request.address});
    return refusal ? refusal_response(*refusal) : success();
}

Response post_metrics(Context& context, Request& request) {
    return switch_metrics(context, request, true);
}

Response delete_metrics(Context& context, Request& request) {
    return switch_metrics(context, request, false);
}

Response get_metrics_setting(Context& context, Request&) {
    return json_response(Json::Object{{"prometheus", metrics_are_on(context)}});
}

Response get_metrics(Context& context, Request& request) {
    if (context.node->knobs.metrics() == MetricsAccess::Token && !request.is_identified) {
        Response denied = refusal_response(
            {401, "unauthorized", "", "a token is needed: Authorization: Bearer <token>", ""});
        denied.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"sluice\"");
        return denied;
    }
    Response out;
    out.content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (!metrics_are_on(context)) {
        out.status = 503;
        out.content_type = "text/plain; charset=utf-8";
        out.body = "Prometheus option is disabled.";
        return out;
    }
    out.body = exposition(metrics::registry().collect());
    return out;
}

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/config/metrics",
     .handler = get_metrics_setting,
     .summary = "Whether metrics are exposed.",
     .reply = "MetricsSetting"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/metrics",
     .handler = post_metrics,
     .summary = "Exposes metrics.",
     .may = "409 503 507"},
    {.method = "DELETE",
     .pattern = "/netlox/v1/config/metrics",
     .handler = delete_metrics,
     .summary = "Stops exposing metrics.",
     .may = "503 507"},
    {.method = "GET",
     .pattern = "/netlox/v1/metrics",
     .handler = get_metrics,
     .summary = "Prometheus text.",
     .access = Access::Public,
     .reply = "text/plain",
     .may = "401 503:text/plain"},
    {.method = "GET",
     .pattern = "/metrics",
     .handler = get_metrics,
     .summary = "Prometheus text.",
     .access = Access::Public,
     .reply = "text/plain",
     .may = "401 503:text/plain"},
};

constexpr Schema kSchemas[] = {
    {"MetricsSetting", R"({"type":"object","required":["prometheus"],"properties":{
        "prometheus":{"type":"boolean"}}})"},
};

}  // namespace

Topic metrics_topic() {
    return {"metrics", kRoutes, kSchemas};
}

}  // namespace sluice::admin
