// /config/endpoint: health objects and probes in force.
#include <array>
#include <cstdio>

#include "core/admin/lookup.hpp"
#include "core/base/log.hpp"
#include "core/rules/health_objects.hpp"
#include "core/rules/host_states.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

using rules::HealthObject;
using rules::HealthObjects;
using rules::HostStates;
using rules::Json;
using rules::Refusal;
using SettingEdit = rules::RuleBook::SettingEdit;
using Kind = Param::Kind;

// "1.2ms"; empty when nothing was measured.
std::string delay_text(const HealthRow& row, std::uint64_t us) {
    if (row.tries == 0) {
        return {};
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1fms", static_cast<double>(us) / 1000.0);
    return text.data();
}

Result<HostStates> stored_states(Context& context) {
    return HostStates::parse(context.book.setting(HostStates::kSetting).value_or(""));
}

Json health_entry(const HealthRow& row, const HostStates& states) {
    const rules::ProbeSpec& probe = row.probe;
    const bool is_http = rules::is_http(probe.kind);
    const std::string path = is_http ? probe.path : "";
    Json::Array rules;
    for (const std::uint32_t number : row.rules) {
        rules.emplace_back(number);
    }
    Json::Object out{{"hostName", row.host},
                     {"name", row.name},
                     {"inactiveReTries", probe.retries},
                     {"probeType", rules::probe_type(probe.kind)},
                     {"probeReq", is_http ? path : probe.request},
                     {"probeResp", probe.reply},
                     {"probeDuration", probe.interval_sec},
                     {"probePort", probe.port},
                     {"httpMethod", is_http ? probe.method : ""},
                     {"urlPath", path},
                     {"expectedCodes", is_http ? probe.codes : ""},
                     {"httpVersion", is_http ? probe.version : ""},
                     {"domainName", probe.domain},
                     {"minDelay", delay_text(row, row.min_us)},
                     {"avgDelay", delay_text(row, row.avg_us)},
                     {"maxDelay", delay_text(row, row.max_us)},
                     {"currState", row.is_up ? "ok" : "nok"},
                     {"hostState", rules::to_string(states.of(row.host, probe.port))},
                     {"isObject", row.is_object},
                     {"rules", std::move(rules)}};
    if (!row.reason.empty()) {
        out.emplace("reason", row.reason);
    }
    return out;
}

Response get_all(Context& context, Request&) {
    const auto states = stored_states(context);
    if (!states) {
        return refusal_response(unreadable_setting(states.error()));
    }
    Json::Array rows;
    for (const HealthRow& row : context.providers.health()) {
        rows.push_back(health_entry(row, *states));
    }
    Json::Array hosts;
    for (const auto& [key, state] : states->entries()) {
        hosts.emplace_back(Json::Object{{"hostName", key.first},
                                        {"epPort", key.second},
                                        {"epProto", "tcp"},
                                        {"state", rules::to_string(state)}});
    }
    return json_response(Json::Object{{"Attr", std::move(rows)}, {"hostStates", std::move(hosts)}});
}

Response post_object(Context& context, Request& request) {
    HealthObject object;
    if (auto refusal = rules::parse_health_object(request.body, object)) {
        return refusal_response(*refusal);
    }
    if (const Status can = context.providers.can_probe(object.probe); !can) {
        return refusal_response({400, "probe_impossible", "probeType", can.error().what, ""});
    }
    const auto put = [&object](SettingEdit& edit) -> std::optional<Refusal> {
        auto objects = HealthObjects::parse(edit.value);
        if (!objects) {
            return unreadable_setting(objects.error());
        }
        const HealthObject* before = objects->find({object.host, object.name});
        edit.action = before == nullptr ? "endpoint.create" : "endpoint.replace";
        edit.subject = object.host + " " + object.name;
        edit.before = before == nullptr ? "" : before->json;
        edit.after = object.json;
        if (auto refusal = objects->put(object)) {
            return refusal;
        }
        edit.value = objects->dump();
        return std::nullopt;
    };
    if (auto refusal = context.book.edit_setting(HealthObjects::kSetting, put, actor_of(request))) {
        return refusal_response(*refusal);
    }
    log::info("health object stored", {{"host", object.host},
                                       {"name", object.name},
                                       {"by", request.actor},
                                       {"from", request.address}});
    return success();
}

// What a DELETE names; what it does not name is not compared.
struct Wanted {
    std::string host;
    std::string name;
    std::string type;
    std::optional<std::uint16_t> port;

    bool is(const std::string& its_host, const std::string& its_name, std::string_view its_type,
            std::uint16_t its_port) const {
        return its_host == host && (name.empty() || its_name == name) &&
               (type.empty() || its_type == type) && (!port || its_port == *port);
    }
};

Refusal nothing_deleted(Context& context, const Wanted& wanted) {
    for (const HealthRow& row : context.providers.health()) {
        if (!row.rules.empty() &&
            wanted.is(row.host, row.name, rules::probe_type(row.probe.kind), row.probe.port)) {
            return {409, "probe_in_use", "", "a rule probes so; change the rule to end the probe",
                    ""};
        }
    }
    return {404, "no_health_object", "", "there is no such health object", ""};
}

Response delete_objects(Context& context, Request& request) {
    const auto address = rules::canonical_ip(request.param("ip"));
    if (!address) {
        return refusal_response({400, "malformed_key", "ip", "malformed ip", "a numeric address"});
    }
    Wanted wanted{*address, request.param("name"), request.param("probe_type"), std::nullopt};
    if (request.has("probe_port")) {
        wanted.port = number_of<std::uint16_t>(request.param("probe_port"));
    }
    const auto remove = [&](SettingEdit& edit) -> std::optional<Refusal> {
        auto objects = HealthObjects::parse(edit.value);
        if (!objects) {
            return unreadable_setting(objects.error());
        }
        std::vector<HealthObjects::Key> gone;
        for (const auto& [key, object] : objects->all()) {
            if (wanted.is(object.host, object.name, rules::probe_type(object.probe.kind),
                          object.probe.port)) {
                gone.push_back(key);
                edit.before += (edit.before.empty() ? "[" : ",") + object.json;
            }
        }
        if (gone.empty()) {
            return nothing_deleted(context, wanted);
        }
        edit.before += "]";
        for (const HealthObjects::Key& key : gone) {
            objects->remove(key);
        }
        edit.action = "endpoint.delete";
        edit.subject = wanted.host;
        edit.value = objects->dump();
        return std::nullopt;
    };
    if (auto refusal =
            context.book.edit_setting(HealthObjects::kSetting, remove, actor_of(request))) {
        return refusal_response(*refusal);
    }
    log::info("health objects deleted",
              {{"host", wanted.host}, {"by", request.actor}, {"from", request.address}});
    return success();
}

constexpr Param kWhich[] = {
    {"name", "Only the object of this name."},
    {"probe_type", "Only objects of this type.", Kind::Text, 0, 0,
     "|tcp|udp|sctp|ping|http|https|none|tls-hello"},
    {"probe_port", "Only objects that probe this port.", Kind::Number, 0, 65535},
};

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/config/endpoint/all",
     .handler = get_all,
     .summary = "Every probe in force, of rules and of health objects, and every host state.",
     .reply = "HealthList"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/endpoint",
     .handler = post_object,
     .summary = "Creates a health object, or replaces the one of the same host and name.",
     .body = "HealthObject",
     .may = "403 422 503 507"},
    {.method = "DELETE",
     .pattern = "/netlox/v1/config/endpoint/epipaddress/{ip}",
     .handler = delete_objects,
     .summary = "Deletes the health objects of a host; the query narrows it.",
     .query = kWhich,
     .may = "409 503 507"},
};

constexpr Schema kSchemas[] = {
    {"HealthObject", R"({"type":"object","required":["hostName"],"additionalProperties":false,
        "properties":{
        "hostName":{"type":"string","description":"a numeric address"},
        "name":{"type":"string","maxLength":256},
        "inactiveReTries":{"type":"integer","minimum":0,"maximum":100,
            "description":"consecutive failures; 0 = 2"},
        "probeType":{"enum":["","tcp","udp","sctp","ping","http","https","none","tls-hello"]},
        "probeReq":{"type":"string","maxLength":1024,
            "description":"the path of an http or https probe; what a tcp, udp or sctp probe sends"},
        "probeResp":{"type":"string","maxLength":1024,"description":"what the answer must hold"},
        "probeDuration":{"type":"integer","minimum":0,"maximum":86400,
            "description":"seconds between tries; 0 = 60"},
        "probePort":{"type":"integer","minimum":0,"maximum":65535},
        "httpMethod":{"enum":["","GET","HEAD","POST","PUT","DELETE","CONNECT","OPTIONS","PATCH",
            "TRACE"]},
        "urlPath":{"type":"string","maxLength":1024},
        "expectedCodes":{"type":"string","maxLength":256,"description":"200, 200,202 or 200-204"},
        "httpVersion":{"enum":["","1.0","1.1"]},
        "domainName":{"type":"string","maxLength":259}}})"},
    {"HealthEntry", R"({"type":"object",
        "required":["hostName","name","inactiveReTries","probeType","probeDuration","probePort",
            "minDelay","avgDelay","maxDelay","currState"],"properties":{
        "hostName":{"type":"string"},"name":{"type":"string"},
        "inactiveReTries":{"type":"integer"},"probeType":{"type":"string"},
        "probeReq":{"type":"string"},"probeResp":{"type":"string"},
        "probeDuration":{"type":"integer"},"probePort":{"type":"integer"},
        "httpMethod":{"type":"string"},"urlPath":{"type":"string"},
        "expectedCodes":{"type":"string"},"httpVersion":{"type":"string"},
        "domainName":{"type":"string"},
        "minDelay":{"type":"string"},"avgDelay":{"type":"string"},"maxDelay":{"type":"string"},
        "currState":{"enum":["ok","nok"]},
        "hostState":{"enum":["green","yellow","red"]},"isObject":{"type":"boolean"},
        "rules":{"type":"array","items":{"type":"integer"}},"reason":{"type":"string"}}})"},
    {"HealthList", R"({"type":"object","required":["Attr","hostStates"],"properties":{
        "Attr":{"type":"array","items":{"$ref":"#/components/schemas/HealthEntry"}},
        "hostStates":{"type":"array","items":{"$ref":"#/components/schemas/HostState"}}}})"},
};

}  // namespace

Topic endpoint_topic() {
    return {"endpoints", kRoutes, kSchemas};
}

}  // namespace sluice::admin
