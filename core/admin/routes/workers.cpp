// Load reports that agents of engines push, the switch of them, and the registry of model profiles.
// Reports are kept to be read; engines that are watched tell their load themselves.
#include <Poco/DateTime.h>
#include <Poco/DateTimeFormat.h>
#include <Poco/DateTimeFormatter.h>
#include <Poco/DateTimeParser.h>
#include <Poco/Exception.h>

#include <algorithm>
#include <regex>

#include "core/admin/body.hpp"
#include "core/admin/router.hpp"
#include "core/base/clock.hpp"
#include "core/net/address.hpp"

namespace sluice::admin {
namespace {

using rules::Json;
using Kind = Param::Kind;

constexpr std::string_view kSetting = "gpu";
constexpr std::uint64_t kMaxAgeUs = 10'000'000;
constexpr std::uint64_t kMaxCount = 1'000'000'000'000ULL;

bool is_on(const Context& context) {
    return context.book.setting(kSetting).value_or("off") == "on";
}

const char* routing_mode(bool on) {
    return on ? "gpu_aware" : "standard_chwbl";
}

std::string rfc3339(std::uint64_t wall) {
    const Poco::Timestamp at(static_cast<Poco::Timestamp::TimeVal>(wall));
    return Poco::DateTimeFormatter::format(at, "%Y-%m-%dT%H:%M:%S.%iZ");
}

// Empty: not of the form.
std::optional<std::uint64_t> parse_rfc3339(const std::string& text) {
    static const std::regex form(
        R"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d))");
    if (!std::regex_match(text, form)) {
        return std::nullopt;
    }
    // The parser knows fractions of six digits, and letters of one case.
    std::string plain = text;
    std::transform(plain.begin(), plain.end(), plain.begin(), [](char c) {
        return c == 't' ? 'T' : c == 'z' ? 'Z' : c;
    });
    if (plain[19] == '.') {
        plain.erase(19, plain.find_first_of("Z+-", 19) - 19);
    }
    try {
        int zone = 0;
        const Poco::DateTime at = Poco::DateTimeParser::parse("%Y-%m-%dT%H:%M:%S%z", plain, zone);
        const Poco::Timestamp stamp =
            at.timestamp() -
            Poco::Timespan(static_cast<Poco::Timespan::TimeDiff>(zone) * 1'000'000);
        return stamp.epochMicroseconds() < 0
                   ? std::nullopt
                   : std::optional(static_cast<std::uint64_t>(stamp.epochMicroseconds()));
    } catch (const Poco::Exception&) {
        return std::nullopt;
    }
}

Response switched(bool on, std::string message) {
    return json_response(Json::Object{
        {"enabled", on}, {"routing_mode", routing_mode(on)}, {"message", std::move(message)}});
}

Response post_enable(Context& context, Request& request) {
    const std::lock_guard lock(context.node->switch_mu);
    if (is_on(context)) {
        return refusal_response(
            {400, "gpu_enabled", "", "worker monitoring is already enabled", ""});
    }
    if (const auto refusal = context.book.set(kSetting, "on", {request.actor, request.address})) {
        return refusal_response(*refusal);
    }
    return switched(true, "worker reports are taken");
}

Response post_disable(Context& context, Request& request) {
    const std::lock_guard lock(context.node->switch_mu);
    if (is_on(context)) {
        if (const auto refusal =
                context.book.set(kSetting, "off", {request.actor, request.address})) {
            return refusal_response(*refusal);
        }
        context.node->workers.clear();
    }
    return switched(false, "worker reports are refused");
}

Response get_status(Context& context, Request&) {
    std::uint64_t newest = 0;
    const std::vector<WorkerReport> reports = context.node->workers.reports();
    for (const WorkerReport& report : reports) {
        newest = std::max(newest, report.at_us);
    }
    const bool on = is_on(context);
    return json_response(
        Json::Object{{"enabled", on},
                     {"routing_mode", routing_mode(on)},
                     {"worker_count", reports.size()},
                     {"last_metrics_update", newest == 0 ? std::string() : rfc3339(newest)},
                     {"ebpf_map_loaded", false}});
}

// Conversations end with their time to live; no store of them is left to clean up.
Response post_cleanup(Context&, Request&) {
    return json_response(
        Json::Object{{"deleted_count", 0},
                     {"oldest_remaining_hours", 0},
                     {"message", "conversations end by themselves; there is nothing to clean up"}});
}

std::optional<rules::Refusal> check_report(WorkerReport& report, const std::string& timestamp,
                                           bool has_timestamp) {
    const auto address = net::Address::parse(report.endpoint);
    if (!address || address->port() == 0) {
        return rules::Refusal{400, "malformed_endpoint", "endpoint_ip",
                              "endpoint_ip must be an address with a port",
                              "IP:PORT or [IPV6]:PORT"};
    }
    report.endpoint = address->format();
    const std::uint64_t now = wall_us();
    report.at_us = now;
    if (!has_timestamp) {
        return std::nullopt;
    }
    const auto at = parse_rfc3339(timestamp);
    if (!at) {
        return rules::Refusal{400, "bad_timestamp", "timestamp", "timestamp is not a time",
                              "RFC 3339, e.g. 2025-01-31T12:00:00Z"};
    }
    if (*at + kMaxAgeUs < now || *at > now + kMaxAgeUs) {
        return rules::Refusal{400, "stale_timestamp", "timestamp",
                              "timestamp is more than 10 s away from this machine's time",
                              "at most 10 s from now"};
    }
    report.at_us = *at;
    return std::nullopt;
}

Response post_report(Context& context, Request& request) {
    if (!is_on(context)) {
        return refusal_response({400, "gpu_disabled", "", "worker monitoring is disabled",
                                 "POST /netlox/v1/config/gpu/enable first"});
    }
    BodyReader body(request.body);
    WorkerReport report;
    report.endpoint = body.text("endpoint_ip", true);
    report.queued_requests = body.number("queued_requests", true, kMaxCount);
    report.swapped_requests = body.number("swapped_requests", false, kMaxCount);
    report.kv_cache_usage_percent = body.real("kv_cache_usage_perc", true, 100);
    report.gpu_blocks = body.number("num_gpu_blocks", false, kMaxCount);
    const std::string timestamp = body.text("timestamp", false);
    if (const auto refusal = body.refusal({"endpoint_ip", "queued_requests", "swapped_requests",
                                           "kv_cache_usage_perc", "num_gpu_blocks", "timestamp"})) {
        return refusal_response(*refusal);
    }
    if (const auto refusal = check_report(report, timestamp, body.has("timestamp"))) {
        return refusal_response(*refusal);
    }
    const Json::Object answer{{"endpoint_ip", report.endpoint},
                              {"queued_requests", report.queued_requests},
                              {"message", "stored"}};
    if (!context.node->workers.put(std::move(report))) {
        return refusal_response({403, "too_many_workers", "endpoint_ip",
                                 "reports of too many endpoints are kept already",
                                 "at most " + std::to_string(WorkerBoard::kMaxWorkers)});
    }
    return json_response(answer);
}

Response get_reports(Context& context, Request&) {
    Json::Array list;
    for (const WorkerReport& report : context.node->workers.reports()) {
        list.emplace_back(Json::Object{{"endpoint_ip", report.endpoint},
                                       {"queued_requests", report.queued_requests},
                                       {"swapped_requests", report.swapped_requests},
                                       {"kv_cache_usage_perc", report.kv_cache_usage_percent},
                                       {"num_gpu_blocks", report.gpu_blocks},
                                       {"timestamp", rfc3339(report.at_us)}});
    }
    return json_response(
        Json::Object{{"workers", std::move(list)}, {"monitoring_enabled", is_on(context)}});
}

// There is no registry: generation 0 and no profiles say so.
Response get_profiles(Context&, Request&) {
    return json_response(
        Json::Object{{"registryGeneration", 0}, {"setDigest", ""}, {"profiles", Json::Array{}}});
}

Response get_profile(Context&, Request&) {
    return refusal_response(
        {404, "no_profile", "profile_id", "there is no such model profile", ""});
}

constexpr Param kMaxAge[] = {
    {"max_age_hours", "Conversations older than this.", Kind::Number, 0, 87'600},
};

constexpr Route kRoutes[] = {
    {.method = "POST",
     .pattern = "/netlox/v1/config/gpu/enable",
     .handler = post_enable,
     .summary = "Takes load reports. It survives a restart.",
     .reply = "GpuSwitch",
     .may = "503 507"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/gpu/disable",
     .handler = post_disable,
     .summary = "Refuses load reports and forgets those it has.",
     .reply = "GpuSwitch",
     .may = "503 507"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/gpu/status",
     .handler = get_status,
     .summary = "Whether load reports are taken, and how many endpoints have one.",
     .reply = "GpuStatus"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/gpu/conversations/cleanup",
     .handler = post_cleanup,
     .summary = "Nothing to clean up: conversations end by themselves.",
     .query = kMaxAge,
     .reply = "GpuCleanup",
     .may = "503"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/worker/metrics",
     .handler = post_report,
     .summary = "The load of one endpoint, as its agent sees it.",
     .body = "WorkerReport",
     .reply = "WorkerStored",
     .may = "411 413 422 503"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/worker/metrics",
     .handler = get_reports,
     .summary = "The newest load report of every endpoint.",
     .reply = "WorkerReports"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/ai/model-profiles",
     .handler = get_profiles,
     .summary = "The registry of model profiles; there is none here.",
     .reply = "ModelProfiles"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/ai/model-profiles/{profile_id}",
     .handler = get_profile,
     .summary = "One model profile; there is none here.",
     .reply = "ModelProfile",
     .may = "404"},
};

constexpr Schema kSchemas[] = {
    {"GpuSwitch", R"({"type":"object","required":["enabled","routing_mode","message"],
        "properties":{"enabled":{"type":"boolean"},
        "routing_mode":{"enum":["gpu_aware","standard_chwbl","disabled"]},
        "message":{"type":"string"}}})"},
    {"GpuStatus", R"({"type":"object","required":["enabled","routing_mode","worker_count",
        "last_metrics_update","ebpf_map_loaded"],"properties":{"enabled":{"type":"boolean"},
        "routing_mode":{"enum":["gpu_aware","standard_chwbl","disabled"]},
        "worker_count":{"type":"integer"},"last_metrics_update":{"type":"string"},
        "ebpf_map_loaded":{"type":"boolean"}}})"},
    {"GpuCleanup", R"({"type":"object","required":["deleted_count","oldest_remaining_hours",
        "message"],"properties":{"deleted_count":{"type":"integer"},
        "oldest_remaining_hours":{"type":"number"},"message":{"type":"string"}}})"},
    {"WorkerReport", R"({"type":"object","required":["endpoint_ip","queued_requests",
        "kv_cache_usage_perc"],"additionalProperties":false,"properties":{
        "endpoint_ip":{"type":"string","maxLength":256},
        "queued_requests":{"type":"integer","minimum":0,"maximum":1000000000000},
        "swapped_requests":{"type":"integer","minimum":0,"maximum":1000000000000},
        "kv_cache_usage_perc":{"type":"number","minimum":0,"maximum":100},
        "num_gpu_blocks":{"type":"integer","minimum":0,"maximum":1000000000000},
        "timestamp":{"type":"string","format":"date-time"}}})"},
    {"WorkerStored", R"({"type":"object","required":["endpoint_ip","queued_requests","message"],
        "properties":{"endpoint_ip":{"type":"string"},"queued_requests":{"type":"integer"},
        "message":{"type":"string"}}})"},
    {"WorkerReports", R"({"type":"object","required":["workers","monitoring_enabled"],
        "properties":{"workers":{"type":"array",
        "items":{"$ref":"#/components/schemas/WorkerReport"}},
        "monitoring_enabled":{"type":"boolean"}}})"},
    {"ModelProfile", R"({"type":"object","required":["profileId"],"properties":{
        "profileId":{"type":"string"},"gen":{"type":"integer"},"baseModel":{"type":"string"},
        "aliasPolicy":{"type":"string"},"allowedAliases":{"type":"array",
        "items":{"type":"string"}},"supportedApis":{"type":"array","items":{"type":"string"}},
        "tokenizerSha256":{"type":"string"},"templateSha256":{"type":"string"}}})"},
    {"ModelProfiles", R"({"type":"object","required":["registryGeneration","setDigest",
        "profiles"],"properties":{"registryGeneration":{"type":"integer"},
        "setDigest":{"type":"string"},"profiles":{"type":"array",
        "items":{"$ref":"#/components/schemas/ModelProfile"}}}})"},
};

}  // namespace

Topic worker_topic() {
    return {"workers", kRoutes, kSchemas};
}

}  // namespace sluice::admin
