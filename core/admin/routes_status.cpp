// /version, /status, /metrics, /config/metrics, /config/ai
#include <charconv>

#include "core/admin/exposition.hpp"
#include "core/admin/router.hpp"
#include "core/base/metrics.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

constexpr std::string_view kMetricsSetting = "prometheus";
constexpr std::size_t kMaxFlows = 10'000;
constexpr std::size_t kDefaultBlocks = 100'000;
constexpr std::size_t kMaxBlocks = 1'000'000;

rules::Refusal bad_parameter(const char* name, std::string allowed) {
    return {400, "malformed_parameter", name, std::string("malformed parameter ") + name,
            std::move(allowed)};
}

// The parameter as a number up to `max`; `fallback` when it is absent; empty when it is not one.
std::optional<std::size_t> number(const Request& request, const char* name, std::size_t fallback,
                                  std::size_t max) {
    if (!request.has(name)) {
        return fallback;
    }
    const std::string& text = request.param(name);
    std::size_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc() || end != text.data() + text.size() || text.empty() || value > max) {
        return std::nullopt;
    }
    return value;
}

Response raw_json(std::string body) {
    Response out;
    out.body = std::move(body);
    return out;
}

Response get_version(Context& context, Request&) {
    return json_response(Json::Object{{"version", context.version},
                                      {"buildInfo", context.build_info},
                                      {"product", "loxilb-inference-gateway"},
                                      {"implementation", "sluice"}});
}

Response get_ready(Context& context, Request&) {
    const Readiness now = context.providers.ready();
    Json::Array reasons;
    for (const std::string& reason : now.reasons) {
        reasons.emplace_back(reason);
    }
    return json_response(Json::Object{{"ready", now.ready},
                                      {"reasons", std::move(reasons)},
                                      {"boot", Json::Object{{"profile", now.profile},
                                                            {"snapshot_found", now.database_found},
                                                            {"succeeded", now.boot_succeeded},
                                                            {"generation", now.generation},
                                                            {"quarantine_path", now.set_aside},
                                                            {"legacy_fallback", false},
                                                            {"degraded", now.degraded}}},
                                      {"external_dependencies", Json::Array{}},
                                      {"auto_persist", true},
                                      {"ebpf_attachments", Json::Array{}}},
                         now.ready ? 200 : 503);
}

Response get_plugins(Context& context, Request&) {
    return raw_json("{\"plugins\":" + context.providers.plugins_json() + "}");
}

Response get_flows(Context& context, Request& request) {
    const auto limit = number(request, "limit", 100, kMaxFlows);
    if (!limit) {
        return refusal_response(bad_parameter("limit", "0.." + std::to_string(kMaxFlows)));
    }
    const FlowFilter filter{request.param("rule"), request.param("model"), request.param("outcome"),
                            *limit};
    return raw_json("{\"flows\":" + context.providers.flows_json(filter) + "}");
}

Response post_explain(Context& context, Request& request) {
    auto receipt = context.providers.explain(request.body);
    return receipt ? raw_json(std::move(*receipt)) : error_response(receipt.error());
}

bool metrics_are_on(const Context& context) {
    return context.book.setting(kMetricsSetting).value_or("on") == "on";
}

Response switch_metrics(Context& context, const Request& request, bool on) {
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

Response get_metrics(Context& context, Request&) {
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

// A rule by number, id or name.
std::optional<rules::Refusal> find_rule(Context& context, const std::string& wanted,
                                        rules::RulePtr& out) {
    const auto table = context.book.table();
    std::uint32_t by_number = 0;
    const auto [end, ec] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), by_number);
    if (ec == std::errc() && end == wanted.data() + wanted.size()) {
        if (const auto at = table->by_number(by_number)) {
            out = table->rules()[*at];
            return std::nullopt;
        }
    }
    if (const auto at = table->by_id(wanted)) {
        out = table->rules()[*at];
        return std::nullopt;
    }
    for (const rules::RulePtr& rule : table->rules()) {
        if (!wanted.empty() && rule->name == wanted) {
            if (out != nullptr) {
                return rules::Refusal{400, "ambiguous_name", "service_id",
                                      "several rules have this name; give the number or the id",
                                      ""};
            }
            out = rule;
        }
    }
    if (out == nullptr) {
        return rules::Refusal{404, "no_rule", "service_id", "no-rule error: there is no such rule",
                              ""};
    }
    return std::nullopt;
}

const rules::EndpointSpec* find_endpoint(const rules::Rule& rule, const Request& request) {
    for (const rules::EndpointSpec& spec : rule.endpoints) {
        const bool is_it = request.has("endpoint")
                               ? spec.name() == request.param("endpoint")
                               : std::to_string(spec.ep_idx) == request.param("ep_idx");
        if (is_it) {
            return &spec;
        }
    }
    return nullptr;
}

Response get_inventory(Context& context, Request& request) {
    if (!request.has("service_id")) {
        return refusal_response(bad_parameter("service_id", "a rule's number, id or name"));
    }
    if (request.has("ep_idx") == request.has("endpoint")) {
        return refusal_response(bad_parameter("ep_idx", "either ep_idx or endpoint=ip:port"));
    }
    const auto limit = number(request, "limit", kDefaultBlocks, kMaxBlocks);
    if (!limit) {
        return refusal_response(bad_parameter("limit", "0.." + std::to_string(kMaxBlocks)));
    }
    rules::RulePtr rule;
    if (auto refusal = find_rule(context, request.param("service_id"), rule)) {
        return refusal_response(*refusal);
    }
    const rules::EndpointSpec* endpoint = find_endpoint(*rule, request);
    if (endpoint == nullptr) {
        return refusal_response({404, "no_endpoint",
                                 request.has("endpoint") ? "endpoint" : "ep_idx",
                                 "the rule has no such endpoint", ""});
    }
    auto inventory = context.providers.inventory(rule, *endpoint, *limit);
    if (!inventory) {
        return error_response(inventory.error());
    }
    // Written by hand: a million blocks as a tree would be a hundred times their size.
    std::string body = "{\"service_id\":" + std::to_string(rule->number) +
                       ",\"ep_idx\":" + std::to_string(endpoint->ep_idx) + ",\"endpoint\":";
    rules::append_quoted(body, endpoint->name());
    body += ",\"hash_algo\":";
    rules::append_quoted(body, inventory->hash_algo);
    if (!inventory->admission.empty()) {
        body += ",\"admission\":";
        rules::append_quoted(body, inventory->admission);
    }
    body += ",\"blocks\":[";
    for (std::size_t i = 0; i < inventory->blocks.size(); ++i) {
        body += (i == 0 ? "{\"block_idx\":" : ",{\"block_idx\":") + std::to_string(i) +
                ",\"hash_uint64\":" + std::to_string(inventory->blocks[i]) + "}";
    }
    body += "],\"truncated\":";
    body += inventory->blocks.size() < inventory->total ? "true" : "false";
    body += ",\"total\":" + std::to_string(inventory->total) + "}";
    return raw_json(std::move(body));
}

constexpr Route kRoutes[] = {
    {"GET", "/netlox/v1/version", get_version, {}, true},
    {"GET", "/netlox/v1/status/ready", get_ready},
    {"GET", "/netlox/v1/status/plugins", get_plugins},
    {"GET", "/netlox/v1/status/flows", get_flows, "rule model outcome limit"},
    {"POST", "/netlox/v1/config/ai/route/explain", post_explain, {}, false, true},
    {"GET", "/netlox/v1/config/ai/kv/inventory", get_inventory, "service_id ep_idx endpoint limit"},
    {"GET", "/netlox/v1/config/metrics", get_metrics_setting},
    {"POST", "/netlox/v1/config/metrics", post_metrics},
    {"DELETE", "/netlox/v1/config/metrics", delete_metrics},
    {"GET", "/netlox/v1/metrics", get_metrics, {}, true},
    {"GET", "/metrics", get_metrics, {}, true},
};

}  // namespace

std::span<const Route> status_routes() {
    return kRoutes;
}

}  // namespace sluice::admin
