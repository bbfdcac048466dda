// How one rule fares: /config/loadbalancer/…/status, …/stats and …/kvexactstatus.
#include <algorithm>
#include <array>

#include "core/admin/condition.hpp"
#include "core/admin/lookup.hpp"

namespace sluice::admin {
namespace {

using rules::Json;
using Kind = Param::Kind;

// Whether `have` is what path and query ask for; what they do not name is not compared.
bool is_meant(const Request& request, const rules::RuleKey& asked, const rules::RuleKey& have) {
    return have.ip == asked.ip && have.port == asked.port && have.protocol == asked.protocol &&
           (!request.has("hosturl") || have.host == asked.host) &&
           (!request.has("model_name") || have.model == asked.model) &&
           (!request.has("block") || have.block == asked.block) &&
           (!request.has("path_prefix") || have.path_prefix == asked.path_prefix) &&
           (!request.has("path_match_mode") || have.path_mode == asked.path_mode);
}

struct Found {
    rules::RulePtr rule;
    std::optional<rules::Dormant> dormant;
    std::optional<Response> refusal;
};

// The rule of exactly the key, else the only one that fits.
Found find_one(Context& context, const Request& request) {
    Found out;
    rules::RuleKey key;
    if (auto refusal = key_of(request, key)) {
        out.refusal = refusal_response(*refusal);
        return out;
    }
    std::size_t fitting = 0;
    const auto table = context.book.table();
    for (const rules::RulePtr& rule : table->rules()) {
        if (rule->key == key) {
            out.rule = rule;
            return out;
        }
        if (is_meant(request, key, rule->key)) {
            out.rule = rule;
            ++fitting;
        }
    }
    for (rules::Dormant& sleeper : context.book.dormant()) {
        if (is_meant(request, key, sleeper.key)) {
            out.dormant = std::move(sleeper);
            ++fitting;
        }
    }
    if (fitting == 0) {
        out.refusal = no_rule();
    } else if (fitting > 1) {
        out.refusal = refusal_response(
            {400, "ambiguous_key", "", "several rules have this address; say which",
             "model_name, hosturl, path_prefix, path_match_mode, block"});
    }
    return out;
}

Response get_status(Context& context, Request& request) {
    const Found found = find_one(context, request);
    if (found.refusal) {
        return *found.refusal;
    }
    if (!found.rule) {
        return json_response(Json::Object{
            {"adminStateUp", true}, {"operatingStatus", "ERROR"}, {"lastUpdated", ""}});
    }
    const RuleLive live = context.providers.rule_status(found.rule);
    return json_response(Json::Object{{"adminStateUp", found.rule->is_admin_up},
                                      {"operatingStatus", operating_status(*found.rule, live)},
                                      {"lastUpdated", rfc3339(live.changed_us)}});
}

Response get_stats(Context& context, Request& request) {
    const Found found = find_one(context, request);
    if (found.refusal) {
        return *found.refusal;
    }
    // A rule that is not in force carries nothing.
    const RuleLive live = found.rule ? context.providers.rule_status(found.rule) : RuleLive{};
    return json_response(Json::Object{{"activeConnections", live.active},
                                      {"totalConnections", live.requests},
                                      {"bytesIn", live.bytes_in},
                                      {"bytesOut", live.bytes_out}});
}

Json::Array texts(const std::vector<std::string>& list) {
    Json::Array out;
    for (const std::string& one : list) {
        out.emplace_back(one);
    }
    return out;
}

Json kv_exact_entry(const rules::Rule& rule, const RuleLive& live) {
    const KvExactState now = kv_exact_state(rule, live);
    Json::Array endpoints;
    for (const rules::EndpointSpec& spec : rule.endpoints) {
        const auto it = live.endpoints.find(spec.id);
        if (it == live.endpoints.end() || !it->second.kv) {
            continue;
        }
        const KvExactState one = kv_exact_state(rule.kv, *it->second.kv);
        endpoints.emplace_back(Json::Object{{"ep_idx", spec.ep_idx},
                                            {"endpoint", spec.name()},
                                            {"enforcedState", one.state},
                                            {"reasonCodes", texts(one.reasons)},
                                            {"signal", it->second.kv->signal},
                                            {"attestation", it->second.kv->attestation},
                                            {"detail", it->second.kv->detail},
                                            {"advice", it->second.kv->advice}});
    }
    const bool is_enforced = now.state != "DEGRADED" && now.state != "ENFORCEMENT_FAULT";
    return Json::Object{
        {"ruleIdentity", rule.id},
        {"modelName", rule.key.model},
        {"engineFamily", rule.engine},
        {"apiMode", "both"},
        {"modelProfileId", ""},
        {"modelProfileGen", 0},
        {"engineContractId", ""},
        {"engineContractGen", 0},
        {"bindingGen", rule.generation},
        {"bindingDigest", ""},
        {"requiredEvidenceLevel", "tokens"},
        {"desiredState", "READY"},
        {"enforcedState", now.state},
        {"reasonCodes", texts(now.reasons)},
        {"enforcement", Json::Object{{"enforced", is_enforced}, {"goFenced", false}}},
        {"endpoints", std::move(endpoints)}};
}

// Of every rule of the address with kvExactMode that the query leaves.
Response get_kv_exact(Context& context, Request& request) {
    rules::RuleKey key;
    if (auto refusal = key_of(request, key)) {
        return refusal_response(*refusal);
    }
    bool is_known = false;
    Json::Array out;
    const auto table = context.book.table();
    for (const rules::RulePtr& rule : table->rules()) {
        if (!is_meant(request, key, rule->key)) {
            continue;
        }
        is_known = true;
        if (rule->kv.exact_mode != 0) {
            out.push_back(kv_exact_entry(*rule, context.providers.rule_status(rule)));
        }
    }
    for (const rules::Dormant& sleeper : context.book.dormant()) {
        is_known = is_known || is_meant(request, key, sleeper.key);
    }
    return is_known ? json_response(Json::Object{{"kvExactStatusAttr", std::move(out)}})
                    : no_rule();
}

constexpr Param kWhich[] = {
    {"model_name", "The rule's model_name."},
    {"hosturl", "The rule's host; `any` is none."},
    {"path_prefix", "The rule's path_prefix."},
    {"path_match_mode", "The rule's path_match_mode.", Kind::Text, 0, 0, "disabled|prefix|exact|"},
    {"block", "The rule's block.", Kind::Number, 0, 0xFFFFFFFF},
};

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/"
                "protocol/{proto}/status",
     .handler = get_status,
     .summary = "Whether the rule serves. ERROR: it is stored and not in force, or its address "
                "cannot be bound.",
     .query = kWhich,
     .reply = "RuleStatus"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/"
                "protocol/{proto}/stats",
     .handler = get_stats,
     .summary = "What the rule has carried since the gateway started. A connection is a request: "
                "active ones are in flight.",
     .query = kWhich,
     .reply = "RuleStats"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/"
                "protocol/{proto}/kvexactstatus",
     .handler = get_kv_exact,
     .summary =
         "How far KV-exact routing can be trusted, for each rule of the address that has it.",
     .query = kWhich,
     .reply = "KvExactStatus"},
};

constexpr Schema kSchemas[] = {
    {"RuleStatus", R"({"type":"object",
        "required":["adminStateUp","operatingStatus","lastUpdated"],"properties":{
        "adminStateUp":{"type":"boolean"},
        "operatingStatus":{"enum":["ONLINE","OFFLINE","DEGRADED","ERROR","NO_MONITOR"]},
        "lastUpdated":{"type":"string",
            "description":"RFC 3339; when an endpoint last changed; empty: not in force"}}})"},
    {"RuleStats", R"({"type":"object",
        "required":["activeConnections","totalConnections","bytesIn","bytesOut"],"properties":{
        "activeConnections":{"type":"integer","minimum":0},
        "totalConnections":{"type":"integer","minimum":0},
        "bytesIn":{"type":"integer","minimum":0},"bytesOut":{"type":"integer","minimum":0}}})"},
    {"KvExactStatus", R"({"type":"object","required":["kvExactStatusAttr"],"properties":{
        "kvExactStatusAttr":{"type":"array","items":{"type":"object",
            "required":["ruleIdentity","modelName","engineFamily","enforcedState","reasonCodes"],
            "properties":{
            "ruleIdentity":{"type":"string"},"modelName":{"type":"string"},
            "engineFamily":{"type":"string"},"apiMode":{"type":"string"},
            "modelProfileId":{"type":"string"},"modelProfileGen":{"type":"integer"},
            "engineContractId":{"type":"string"},"engineContractGen":{"type":"integer"},
            "bindingGen":{"type":"integer"},"bindingDigest":{"type":"string"},
            "requiredEvidenceLevel":{"type":"string"},"desiredState":{"type":"string"},
            "enforcedState":{"enum":["READY","READY_FUNCTIONAL_ONLY","PROFILE_VALIDATED",
                "PENDING_DATAPLANE_CONTRACT","TOKEN_PARITY_VERIFIED","ENGINE_HASH_ATTESTED",
                "DEGRADING","DEGRADED","ENFORCEMENT_FAULT","REQUIRES_MIGRATION",
                "LEGACY_ACTIVE_UNATTESTED"]},
            "reasonCodes":{"type":"array","items":{"type":"string"}},
            "enforcement":{"type":"object","properties":{
                "enforced":{"type":"boolean"},"goFenced":{"type":"boolean"}}},
            "endpoints":{"type":"array","items":{"type":"object","properties":{
                "ep_idx":{"type":"integer"},"endpoint":{"type":"string"},
                "enforcedState":{"type":"string"},
                "reasonCodes":{"type":"array","items":{"type":"string"}},
                "signal":{"type":"string"},"attestation":{"type":"string"},
                "detail":{"type":"string"},"advice":{"type":"string"}}}}}}}}})"},
};

}  // namespace

Topic rule_live_topic() {
    return {"rule_live", kRoutes, kSchemas};
}

}  // namespace sluice::admin
