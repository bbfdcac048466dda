// oper 1 and 2: endpoints added to a rule and taken out of it.
#include <algorithm>
#include <tuple>

#include "core/rules/auth_file.hpp"
#include "core/rules/edit.hpp"
#include "core/rules/field.hpp"
#include "core/rules/key.hpp"

namespace sluice::rules {
namespace {

using Identity = std::tuple<std::string, std::uint64_t, std::uint64_t>;

// Of an endpoint that parse_rule() accepted.
Identity identity_of(const Json& endpoint) {
    const Json::Object& object = *endpoint.object();
    const auto number = [&object](const char* name) {
        const auto it = object.find(name);
        const auto* n = it == object.end() ? nullptr : it->second.unsigned_integer();
        return n == nullptr ? 0 : *n;
    };
    return {canonical_ip(*object.at("endpointIP").text()).value_or(""), number("targetPort"),
            number("ep_role")};
}

std::string spoken(const Identity& identity) {
    const auto& [ip, port, role] = identity;
    EndpointSpec spec;
    spec.ip = ip;
    spec.port = static_cast<std::uint16_t>(port);
    return spec.name() + (role == 0 ? "" : " with ep_role " + std::to_string(role));
}

Json::Array::iterator find_in(Json::Array& endpoints, const Identity& identity) {
    return std::find_if(endpoints.begin(), endpoints.end(), [&identity](const Json& endpoint) {
        return identity_of(endpoint) == identity;
    });
}

// Whatever else the body names must be as the rule has it.
std::optional<Refusal> check_agreement(const Json::Object& asked, const Json::Object& stored,
                                       const Parsed& parsed, const Rule& previous) {
    if (!parsed.rule.id.empty() && parsed.rule.id != previous.id) {
        return immutable("id", "the rule of this key has another id");
    }
    const Json::Object& now = *asked.at("serviceArguments").object();
    const Json::Object& before = *stored.at("serviceArguments").object();
    for (const auto& [name, value] : now) {
        const Field* field = find_field(service_fields(), name);
        const auto it = before.find(name);
        const bool is_hidden = field->is_hidden && value == Json(kHidden) && it != before.end();
        if (name != "adminStateUp" && !is_hidden && !is_of_key(name) &&
            !is_same_value(*field, &value, it == before.end() ? nullptr : &it->second)) {
            return Refusal{400, "oper_conflict", name,
                           "oper changes endpoints only; " + name + " is not what the rule has",
                           "absent, or the value the rule has"};
        }
    }
    if (!parsed.rule.allowed_sources.empty() &&
        parsed.rule.allowed_sources != previous.allowed_sources) {
        return Refusal{400, "oper_conflict", "allowedSources",
                       "oper changes endpoints only; allowedSources are not what the rule has",
                       "absent, or what the rule has"};
    }
    return std::nullopt;
}

void attach(Json::Array& endpoints, const Json::Array& asked) {
    for (const Json& endpoint : asked) {
        const auto it = find_in(endpoints, identity_of(endpoint));
        if (it == endpoints.end()) {
            endpoints.push_back(endpoint);
        } else {
            *it = endpoint;
        }
    }
}

std::optional<Refusal> detach(Json::Array& endpoints, const Json::Array& asked) {
    for (const Json& endpoint : asked) {
        const Identity identity = identity_of(endpoint);
        const auto it = find_in(endpoints, identity);
        if (it == endpoints.end()) {
            return Refusal{404,
                           "no_endpoint",
                           "endpoints",
                           "no such endpoint: the rule has no " + spoken(identity),
                           {}};
        }
        endpoints.erase(it);
    }
    if (endpoints.empty()) {
        return Refusal{400, "endpoints_range", "endpoints",
                       "the last endpoint of a rule cannot be taken out; delete the rule",
                       "at least one endpoint stays"};
    }
    return std::nullopt;
}

}  // namespace

Edited with_endpoints(const Rule& previous, const Parsed& asked) {
    auto wanted = Json::parse(asked.rule.json);
    auto stored = Json::parse(previous.json);
    if (!wanted || !stored) {
        return Refusal{500, "internal", "", "the stored rule cannot be read", {}};
    }
    if (auto refusal = check_agreement(*wanted->object(), *stored->object(), asked, previous)) {
        return *refusal;
    }
    Json::Array& endpoints = *stored->object()->at("endpoints").array();
    const Json::Array& given = *wanted->object()->at("endpoints").array();
    if (asked.oper == 1) {
        attach(endpoints, given);
    } else if (auto refusal = detach(endpoints, given)) {
        return *refusal;
    }
    return std::move(*stored);
}

}  // namespace sluice::rules
