#include "core/admin/read_back.hpp"

#include "core/rules/key.hpp"
#include "core/rules/secrets.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

Json::Object parsed_object(const std::string& text) {
    auto value = Json::parse(text);
    return value.ok() && value->object() != nullptr ? std::move(*value->object()) : Json::Object{};
}

std::uint64_t number_in(const Json::Object& object, std::string_view name) {
    const auto it = object.find(name);
    const auto* n = it == object.end() ? nullptr : it->second.unsigned_integer();
    return n == nullptr ? 0 : *n;
}

// The endpoint as the operator wrote it.
Json::Object stored_endpoint(const Json::Array& stored, const rules::EndpointSpec& spec) {
    for (const Json& json : stored) {
        const Json::Object* object = json.object();
        const auto ip =
            object == nullptr ? Json::Object::const_iterator{} : object->find("endpointIP");
        if (object == nullptr || ip == object->end() || ip->second.text() == nullptr) {
            continue;
        }
        if (rules::canonical_ip(*ip->second.text()) == spec.ip &&
            number_in(*object, "targetPort") == spec.port &&
            number_in(*object, "ep_role") == spec.role) {
            return *object;
        }
    }
    return {};
}

Json kv_json(const KvLive& kv) {
    Json::Object out{{"blocks", kv.blocks}, {"signal", kv.signal}, {"attestation", kv.attestation}};
    if (!kv.reason.empty()) {
        out.emplace("reason", kv.reason);
    }
    if (!kv.detail.empty()) {
        out.emplace("detail", kv.detail);
    }
    if (!kv.advice.empty()) {
        out.emplace("advice", kv.advice);
    }
    if (kv.last_event_age_ms) {
        out.emplace("last_event_age_ms", *kv.last_event_age_ms);
    }
    return out;
}

void add_live(Json::Object& out, const EndpointLive& live) {
    out.insert_or_assign("state", live.state);
    out.insert_or_assign("inflight", live.inflight);
    out.insert_or_assign("queued", live.queued);
    out.insert_or_assign("counter",
                         std::to_string(live.requests) + ":" + std::to_string(live.bytes));
    if (live.inactive) {
        out.insert_or_assign("inActiveEP", true);
    }
    if (!live.reason.empty()) {
        out.insert_or_assign("reason", live.reason);
    }
    if (!live.breaker.empty()) {
        out.insert_or_assign("breaker", live.breaker);
    }
    if (live.kv) {
        out.insert_or_assign("kv", kv_json(*live.kv));
    }
}

Json::Array endpoints_of(const rules::Rule& rule, const Json::Array& stored, const RuleLive& live) {
    Json::Array out;
    for (const rules::EndpointSpec& spec : rule.endpoints) {
        Json::Object entry = stored_endpoint(stored, spec);
        entry.insert_or_assign("id", spec.id);
        entry.insert_or_assign("ep_idx", spec.ep_idx);
        const auto it = live.endpoints.find(spec.id);
        EndpointLive now;
        if (it != live.endpoints.end()) {
            now = it->second;
        } else if (spec.weight == 0) {
            now.state = "draining";
        }
        add_live(entry, now);
        out.emplace_back(std::move(entry));
    }
    return out;
}

Json::Object service_of(const Json::Object& body) {
    const auto it = body.find("serviceArguments");
    return it == body.end() || it->second.object() == nullptr ? Json::Object{}
                                                              : *it->second.object();
}

Json::Array list_of(const Json::Object& body, const char* name) {
    const auto it = body.find(name);
    return it == body.end() || it->second.array() == nullptr ? Json::Array{} : *it->second.array();
}

Json::Object frame(const Json::Object& body, const std::string& id, std::uint32_t number,
                   std::uint64_t generation) {
    Json::Object service = service_of(body);
    service.insert_or_assign("id", id);
    service.try_emplace("adminStateUp", true);
    return {{"id", id},
            {"number", number},
            {"generation", generation},
            {"serviceArguments", std::move(service)},
            {"secondaryIPs", Json::Array{}},
            {"secondaryVIPs", Json::Array{}},
            {"allowedSources", list_of(body, "allowedSources")}};
}

}  // namespace

Json warnings_json(const std::vector<rules::Warning>& warnings) {
    Json::Array out;
    for (const rules::Warning& w : warnings) {
        out.emplace_back(
            Json::Object{{"code", w.code}, {"field", w.field}, {"message", w.message}});
    }
    return out;
}

Json rule_entry(const rules::RulePtr& rule, const RuleLive& live,
                const std::vector<rules::Warning>& warnings) {
    const Json::Object body = parsed_object(rules::without_secrets(rule->json));
    Json::Object out = frame(body, rule->id, rule->number, rule->generation);
    out.emplace("endpoints", endpoints_of(*rule, list_of(body, "endpoints"), live));
    Json::Object effective = parsed_object(rule->effective);
    for (const auto& [name, text] : live.effective) {
        if (auto value = Json::parse(text); value.ok()) {
            effective.insert_or_assign(name, std::move(*value));
        }
    }
    Json in_force(std::move(effective));
    rules::hide_secrets(in_force);
    out.emplace("effective", std::move(in_force));
    std::vector<rules::Warning> all = warnings;
    if (live.is_listening) {  // what the start found is over
        std::erase_if(all,
                      [](const rules::Warning& w) { return w.code == "listener_unavailable"; });
    }
    for (const auto& [code, message] : live.warnings) {
        all.push_back({code, "", message});
    }
    out.emplace("warnings", warnings_json(all));
    return out;
}

Json dormant_entry(const rules::Dormant& rule) {
    const Json::Object body = parsed_object(rules::without_secrets(rule.body));
    Json::Object out = frame(body, rule.id, rule.number, rule.generation);
    Json::Array endpoints = list_of(body, "endpoints");
    for (Json& endpoint : endpoints) {
        if (endpoint.object() != nullptr) {
            endpoint.object()->insert_or_assign("state", "disabled");
            endpoint.object()->insert_or_assign("reason", "the rule is not in force");
        }
    }
    out.emplace("endpoints", std::move(endpoints));
    out.emplace("effective", Json::Object{});
    out.emplace(
        "warnings",
        warnings_json({{"not_in_force", rule.why.field, rule.why.code + ": " + rule.why.message}}));
    return out;
}

}  // namespace sluice::admin
