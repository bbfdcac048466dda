// What is switched while the gateway runs: maintenance and the log level; and the report for
// support.
#include "core/admin/switches.hpp"

#include "core/admin/body.hpp"
#include "core/admin/router.hpp"
#include "core/base/clock.hpp"
#include "core/base/metrics.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

constexpr std::uint64_t kMaxDrainSec = 86'400;
constexpr std::uint64_t kDefaultDrainSec = 30;

Json::Object maintenance_status(Context& context) {
    const Maintenance now = maintenance(context.book);
    const std::uint64_t in_flight = context.providers.in_flight();
    const std::uint64_t wall = wall_us();
    const bool is_late = now.is_on && now.drain_timeout_sec > 0 && in_flight > 0 &&
                         wall > now.since_us + now.drain_timeout_sec * 1'000'000U;
    return Json::Object{{"state", now.is_on ? "maintenance" : "active"},
                        {"refusing_new_config", now.is_on},
                        {"refusing_new_inference", now.is_on},
                        {"in_flight_requests", in_flight},
                        {"drain_timeout_seconds", now.drain_timeout_sec},
                        {"drain_deadline_exceeded", is_late}};
}

Response get_maintenance(Context& context, Request&) {
    return json_response(maintenance_status(context));
}

Response put_maintenance(Context& context, Request& request) {
    BodyReader body(request.body);
    Maintenance next;
    next.is_on = body.boolean("enabled", true);
    next.drain_timeout_sec = body.has("drain_timeout_seconds")
                                 ? body.number("drain_timeout_seconds", false, kMaxDrainSec)
                                 : kDefaultDrainSec;
    if (const auto refusal = body.refusal({"enabled", "drain_timeout_seconds"})) {
        return refusal_response(*refusal);
    }
    const std::lock_guard lock(context.node->switch_mu);
    const Maintenance now = maintenance(context.book);
    const bool is_same =
        now.is_on == next.is_on && (!next.is_on || now.drain_timeout_sec == next.drain_timeout_sec);
    if (!is_same) {
        next.since_us = wall_us();
        if (const auto refusal =
                set_maintenance(context.book, next, {request.actor, request.address})) {
            return refusal_response(*refusal);
        }
        context.providers.refuse_new_requests(next.is_on);
        log::info(next.is_on ? "maintenance begins" : "maintenance ends",
                  {{"by", request.actor}, {"drain_timeout_s", next.drain_timeout_sec}});
    }
    return json_response(maintenance_status(context));
}

Response get_params(Context& context, Request&) {
    const LogSwitch now = log_switch(context.book, context.node->knobs.log_level());
    return json_response(
        Json::Object{{"logLevel", now.word}, {"effective", log::to_string(now.level)}});
}

Response post_params(Context& context, Request& request) {
    BodyReader body(request.body);
    const std::string word = body.text("logLevel", true);
    if (const auto refusal = body.refusal({"logLevel"})) {
        return refusal_response(*refusal);
    }
    const auto level = level_of_word(word);
    if (!level) {
        return refusal_response({422, "unknown_value", "logLevel", "there is no such log level",
                                 std::string(kLevelWords)});
    }
    const std::lock_guard lock(context.node->switch_mu);
    if (const auto refusal = set_log_switch(context.book, word, context.node->knobs.log_level(),
                                            {request.actor, request.address})) {
        return refusal_response(*refusal);
    }
    log::set_level(*level);
    return success();
}

bool is_fault(std::string_view name) {
    constexpr std::string_view kWords[] = {"fail", "error", "refus", "reject", "dropped", "lost"};
    for (const std::string_view word : kWords) {
        if (name.find(word) != std::string_view::npos) {
            return true;
        }
    }
    return false;
}

// Counters whose name says that something went wrong, those at 0 left out.
Json::Object faults() {
    Json::Object out;
    for (const metrics::Family& family : metrics::registry().collect()) {
        if (family.kind != metrics::Kind::Counter || !is_fault(family.name)) {
            continue;
        }
        for (const metrics::Sample& sample : family.samples) {
            if (sample.value == 0) {
                continue;
            }
            std::string name = family.name;
            for (const auto& [label, value] : sample.labels) {
                name.append(" ").append(label).append("=").append(value);
            }
            out.emplace(std::move(name), sample.value);
        }
    }
    return out;
}

Response get_diagnostics(Context& context, Request&) {
    const Readiness ready = context.providers.ready();
    Json::Array reasons;
    for (const std::string& reason : ready.reasons) {
        reasons.emplace_back(reason);
    }
    Json::Array lines;
    for (const std::string& line : log::recent()) {
        lines.emplace_back(line);
    }
    const auto table = context.book.table();
    std::uint64_t endpoints = 0;
    for (const rules::RulePtr& rule : table->rules()) {
        endpoints += rule->endpoints.size();
    }
    const Json own =
        Json::Object{{"version", context.version},
                     {"build", context.build_info},
                     {"time_us", wall_us()},
                     {"ready", ready.ready},
                     {"reasons", std::move(reasons)},
                     {"rules", table->rules().size()},
                     {"rules_not_in_force", context.book.dormant().size()},
                     {"endpoints", endpoints},
                     {"maintenance", maintenance_status(context)},
                     {"log_level", log_switch(context.book, context.node->knobs.log_level()).word},
                     {"faults", faults()},
                     {"log", std::move(lines)}};
    // The parts come as JSON text; joined, they are one object.
    std::string out = own.dump();
    out.pop_back();
    out += ",\"plugins\":" + context.providers.plugins_json();
    out += ",\"daemon\":" + context.providers.diagnostics_json() + "}";
    return json_text(std::move(out));
}

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/maintenance",
     .handler = get_maintenance,
     .summary = "Whether the gateway is in maintenance, and what still runs.",
     .reply = "MaintenanceStatus"},
    {.method = "PUT",
     .pattern = "/netlox/v1/maintenance",
     .handler = put_maintenance,
     .summary = "Begins or ends maintenance: new requests and changes are refused, running "
                "requests finish. It survives a restart.",
     .body = "Maintenance",
     .reply = "MaintenanceStatus",
     .may = "411 413 422 503 507"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/params",
     .handler = get_params,
     .summary = "The log level.",
     .reply = "Params"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/params",
     .handler = post_params,
     .summary = "Sets the log level. It holds until the configuration says another than now.",
     .body = "ParamsEntry",
     .may = "411 413 422 503 507"},
    {.method = "GET",
     .pattern = "/netlox/v1/diagnostics",
     .handler = get_diagnostics,
     .summary = "What to send to whoever helps: settings without secrets, plugins, listeners, "
                "faults, the newest warnings.",
     .access = Access::Admin,
     .reply = "Diagnostics"},
};

constexpr Schema kSchemas[] = {
    {"Maintenance", R"({"type":"object","required":["enabled"],"additionalProperties":false,
        "properties":{"enabled":{"type":"boolean"},
        "drain_timeout_seconds":{"type":"integer","minimum":0,"maximum":86400,"default":30}}})"},
    {"MaintenanceStatus", R"({"type":"object","required":["state","refusing_new_config",
        "refusing_new_inference","in_flight_requests","drain_deadline_exceeded"],"properties":{
        "state":{"enum":["active","maintenance"]},"refusing_new_config":{"type":"boolean"},
        "refusing_new_inference":{"type":"boolean"},"in_flight_requests":{"type":"integer"},
        "drain_timeout_seconds":{"type":"integer"},
        "drain_deadline_exceeded":{"type":"boolean"}}})"},
    {"ParamsEntry", R"({"type":"object","required":["logLevel"],"additionalProperties":false,
        "properties":{"logLevel":{"enum":["trace","debug","info","error","warning","notice",
        "critical","emergency","alert"]}}})"},
    {"Params", R"({"type":"object","required":["logLevel","effective"],"properties":{
        "logLevel":{"type":"string"},"effective":{"enum":["error","warn","info","debug"]}}})"},
    {"Diagnostics", R"({"type":"object","required":["version","ready","rules","plugins",
        "daemon"],"properties":{"version":{"type":"string"},"build":{"type":"string"},
        "time_us":{"type":"integer"},"ready":{"type":"boolean"},
        "reasons":{"type":"array","items":{"type":"string"}},"rules":{"type":"integer"},
        "rules_not_in_force":{"type":"integer"},"endpoints":{"type":"integer"},
        "maintenance":{"$ref":"#/components/schemas/MaintenanceStatus"},
        "log_level":{"type":"string"},"faults":{"type":"object"},
        "log":{"type":"array","items":{"type":"string"}},"plugins":{"type":"array"},
        "daemon":{"type":"object"}}})"},
};

}  // namespace

Topic switch_topic() {
    return {"switches", kRoutes, kSchemas};
}

}  // namespace sluice::admin
