// /config/endpointhoststate: which hosts are in service, over all rules.
#include "core/rules/host_states.hpp"
#include "core/admin/lookup.hpp"
#include "core/base/log.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

using rules::HostStates;
using rules::Json;
using rules::Refusal;
using SettingEdit = rules::RuleBook::SettingEdit;

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
            return unreadable_setting(states.error());
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

Json drain_entry(const std::string& host, std::uint16_t port, const char* state,
                 std::uint64_t inflight) {
    return Json::Object{{"hostName", host}, {"epPort", port},       {"epProto", "tcp"},
                        {"state", state},   {"inflight", inflight}, {"drained", inflight == 0}};
}

// How far drains are: hosts with a state, and addresses that no rule names any more but that still
// finish requests.
Response get_host_states(Context& context, Request&) {
    const auto states = HostStates::parse(context.book.setting(HostStates::kSetting).value_or(""));
    if (!states) {
        return refusal_response(unreadable_setting(states.error()));
    }
    const std::vector<AddressLoad> loads = context.providers.address_loads();
    Json::Array hosts;
    for (const auto& [key, state] : states->entries()) {
        std::uint64_t inflight = 0;
        for (const AddressLoad& load : loads) {
            const bool has_own = states->entries().contains({load.host, load.port});
            const bool is_meant = key.second == 0 ? !has_own : load.port == key.second;
            inflight += load.host == key.first && is_meant ? load.inflight : 0;
        }
        hosts.push_back(drain_entry(key.first, key.second,
                                    std::string(rules::to_string(state)).c_str(), inflight));
    }
    for (const AddressLoad& load : loads) {
        if (!load.is_named && load.inflight != 0) {
            hosts.push_back(drain_entry(load.host, load.port, "removed", load.inflight));
        }
    }
    return json_response(Json::Object{{"hostStates", std::move(hosts)}});
}

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/config/endpointhoststate",
     .handler = get_host_states,
     .summary =
         "How far drains are: what each host that is not green still has in flight, over all "
         "rules, and what addresses still finish that no rule names any more.",
     .reply = "HostDrains"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/endpointhoststate",
     .handler = post_host_state,
     .summary = "Takes a host in or out over all rules: yellow sends it nothing new, red takes it "
                "out, green takes it back. Requests in flight end as they would.",
     .body = "HostState",
     .may = "404 422 503 507"},
};

constexpr Schema kSchemas[] = {
    {"HostDrains", R"({"type":"object","required":["hostStates"],"additionalProperties":false,
        "properties":{"hostStates":{"type":"array","items":{"type":"object",
        "required":["hostName","epPort","epProto","state","inflight","drained"],
        "additionalProperties":false,"properties":{
        "hostName":{"type":"string"},
        "epPort":{"type":"integer","minimum":0,"maximum":65535,
            "description":"0 = every port without a state of its own"},
        "epProto":{"enum":["tcp"]},
        "state":{"enum":["green","yellow","red","removed"],
            "description":"removed: no rule names the address any more"},
        "inflight":{"type":"integer","minimum":0,"description":"requests that still run there"},
        "drained":{"type":"boolean","description":"none is left"}}}}}})"},
    {"HostState", R"({"type":"object","required":["hostName","state"],
        "additionalProperties":false,"properties":{
        "hostName":{"type":"string","description":"a numeric address"},
        "epPort":{"type":"integer","minimum":0,"maximum":65535,
            "description":"0 = every port without a state of its own"},
        "epProto":{"enum":["","tcp"]},"state":{"enum":["green","yellow","red"]}}})"},
};

}  // namespace

Topic host_state_topic() {
    return {"host_states", kRoutes, kSchemas};
}

}  // namespace sluice::admin
