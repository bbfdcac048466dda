// /config/endpoint: health objects and probes in force; /config/endpointhoststate: what is in
// service.
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

Refusal damaged(const Error& error) {
    return {500, "storage_failed", "", "what is stored cannot be read: " + error.what, {}};
}

Result<HostStates> stored_states(Context& context) {
    return HostStates::parse(context.book.setting(HostStates::kSetting).value_or(""));
}

Json health_entry(const HealthRow& row, const HostStates& states) {
    const bool is_http = row.type == "http";
    Json::Array rules;
    for (const std::uint32_t number : row.rules) {
        rules.emplace_back(number);
    }
    Json::Object out{{"hostName", row.host},
                     {"name", row.name},
                     {"inactiveReTries", row.retries},
                     {"probeType", row.type},
                     {"probeReq", row.path},
                     {"probeResp", ""},
                     {"probeDuration", row.interval_sec},
                     {"probePort", row.port},
                     {"httpMethod", is_http ? "GET" : ""},
                     {"urlPath", row.path},
                     {"expectedCodes", is_http ? "200" : ""},
                     {"httpVersion", is_http ? "1.1" : ""},
                     {"domainName", ""},
                     {"minDelay", delay_text(row, row.min_us)},
                     {"avgDelay", delay_text(row, row.avg_us)},
                     {"maxDelay", delay_text(row, row.max_us)},
                     {"currState", row.is_up ? "ok" : "nok"},
                     {"hostState", rules::to_string(states.of(row.host, row.port))},
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
        return refusal_response(damaged(states.error()));
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
    const auto put = [&object](SettingEdit& edit) -> std::optional<Refusal> {
        auto objects = HealthObjects::parse(edit.value);
        if (!objects) {
            return damaged(objects.error());
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
        if (!row.rules.empty() && wanted.is(row.host, row.name, row.type, row.port)) {
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
            return damaged(objects.error());
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

struct HostChange {
    std::string host;
    std::uint16_t port = 0;
    rules::HostState state = rules::HostState::Green;
};

Refusal bad_state(int status, const char* code, const char* field, const char* message,
                  const char* allowed) {
    return {status, code, field, message, allowed};
}

std::optional<Refusal> take_port(const Json& value, HostChange& out) {
    const std::uint64_t* port = value.unsigned_integer();
    if (port == nullptr && value.negative_integer() == nullptr) {
        return bad_state(422, "wrong_type", "epPort", "epPort must be a port", "a whole number");
    }
    if (port == nullptr || *port > UINT16_MAX) {
        return bad_state(422, "out_of_range", "epPort", "epPort must be a port; 0 is every port",
                         "0..65535");
    }
    out.port = static_cast<std::uint16_t>(*port);
    return std::nullopt;
}

std::optional<Refusal> take_text(const std::string& name, const std::string& word,
                                 HostChange& out) {
    if (name == "epProto" && !word.empty() && word != "tcp") {
        return bad_state(422, "unknown_value", "epProto", "endpoints are reached over tcp only",
                         "absent or tcp");
    }
    if (name == "hostName") {
        const auto address = rules::canonical_ip(word);
        if (!address) {
            return bad_state(400, "malformed_host", "hostName",
                             "hostName must be a numeric address", "an IPv4 or IPv6 address");
        }
        out.host = *address;
    }
    if (name == "state") {
        for (const auto state :
             {rules::HostState::Green, rules::HostState::Yellow, rules::HostState::Red}) {
            if (word == rules::to_string(state)) {
                out.state = state;
                return std::nullopt;
            }
        }
        return bad_state(422, "unknown_value", "state", "state says what becomes of the host",
                         "green, yellow or red");
    }
    return std::nullopt;
}

std::optional<Refusal> parse_host_state(std::string_view text, HostChange& out) {
    const auto body = Json::parse(text);
    if (!body || body->object() == nullptr) {
        return Refusal{400, "malformed_json", "",
                       body ? "the body is " + std::string(body->kind()) : body.error().what,
                       "a JSON object"};
    }
    for (const auto& [name, value] : *body->object()) {
        if (name == "epPort") {
            if (auto refusal = take_port(value, out)) {
                return refusal;
            }
            continue;
        }
        if (name != "hostName" && name != "epProto" && name != "state") {
            return Refusal{400, "unknown_field", name, "a host state has no " + name, ""};
        }
        if (value.text() == nullptr) {
            return Refusal{422, "wrong_type", name, name + " must be text", "text"};
        }
        if (auto refusal = take_text(name, *value.text(), out)) {
            return refusal;
        }
    }
    for (const char* name : {"hostName", "state"}) {
        if (body->object()->find(name) == body->object()->end()) {
            return bad_state(422, "required", name, "hostName and state are required", "");
        }
    }
    return std::nullopt;
}

bool is_some_endpoint(const rules::Table& table, const HostChange& change) {
    for (const rules::RulePtr& rule : table.rules()) {
        for (const rules::EndpointSpec& spec : rule->endpoints) {
            if (spec.ip == change.host && (change.port == 0 || spec.port == change.port)) {
                return true;
            }
        }
    }
    return false;
}

Response post_host_state(Context& context, Request& request) {
    HostChange change;
    if (auto refusal = parse_host_state(request.body, change)) {
        return refusal_response(*refusal);
    }
    const auto set = [&](SettingEdit& edit) -> std::optional<Refusal> {
        auto states = HostStates::parse(edit.value);
        if (!states) {
            return damaged(states.error());
        }
        // A state outlives the rules that name the host, and can be taken back without them.
        if (!is_some_endpoint(*context.book.table(), change) &&
            !states->has(change.host, change.port)) {
            return Refusal{404, "no_endpoint", "hostName", "no rule has such an endpoint", ""};
        }
        edit.action = "endpoint.host_state";
        edit.subject = change.host + " " + std::to_string(change.port);
        edit.before = rules::to_string(states->of(change.host, change.port));
        edit.after = rules::to_string(change.state);
        if (Status fits = states->set(change.host, change.port, change.state); !fits) {
            return Refusal{403, "host_state_hwm", "", fits.error().what, ""};
        }
        edit.value = states->dump();
        return std::nullopt;
    };
    if (auto refusal = context.book.edit_setting(HostStates::kSetting, set, actor_of(request))) {
        return refusal_response(*refusal);
    }
    log::info("host state set", {{"host", change.host},
                                 {"port", change.port},
                                 {"state", rules::to_string(change.state)},
                                 {"by", request.actor},
                                 {"from", request.address}});
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
    {.method = "POST",
     .pattern = "/netlox/v1/config/endpointhoststate",
     .handler = post_host_state,
     .summary = "Takes a host in or out over all rules: yellow sends it nothing new, red takes it "
                "out, green takes it back. Requests in flight end as they would.",
     .body = "HostState",
     .may = "404 422 503 507"},
};

constexpr Schema kSchemas[] = {
    {"HealthObject", R"({"type":"object","required":["hostName"],"additionalProperties":false,
        "properties":{
        "hostName":{"type":"string","description":"a numeric address"},
        "name":{"type":"string","maxLength":256},
        "inactiveReTries":{"type":"integer","minimum":0,"maximum":100,
            "description":"consecutive failures; 0 = 2"},
        "probeType":{"enum":["","tcp","udp","sctp","ping","http","https","none","tls-hello"]},
        "probeReq":{"type":"string","maxLength":1024,"description":"the path of an http probe"},
        "probeResp":{"type":"string","maxLength":1024},
        "probeDuration":{"type":"integer","minimum":0,"maximum":86400,
            "description":"seconds between tries; 0 = 60"},
        "probePort":{"type":"integer","minimum":0,"maximum":65535},
        "httpMethod":{"type":"string","maxLength":16},
        "urlPath":{"type":"string","maxLength":1024},
        "expectedCodes":{"type":"string","maxLength":64},
        "httpVersion":{"type":"string","maxLength":8},
        "domainName":{"type":"string","maxLength":253}}})"},
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
    {"HostState", R"({"type":"object","required":["hostName","state"],
        "additionalProperties":false,"properties":{
        "hostName":{"type":"string","description":"a numeric address"},
        "epPort":{"type":"integer","minimum":0,"maximum":65535,
            "description":"0 = every port without a state of its own"},
        "epProto":{"enum":["","tcp"]},"state":{"enum":["green","yellow","red"]}}})"},
};

}  // namespace

Topic endpoint_topic() {
    return {"endpoints", kRoutes, kSchemas};
}

}  // namespace sluice::admin
