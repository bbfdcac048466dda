// /config/loadbalancer
#include <algorithm>
#include <cctype>

#include "core/admin/lookup.hpp"
#include "core/admin/read_back.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

Json entry_of(Context& context, const rules::RulePtr& rule) {
    return rule_entry(rule, context.providers.rule_status(rule),
                      context.book.warnings(rule->number));
}

// Every rule, stored order, of which `wanted(key, body)` says yes.
template <class Wanted>
Json::Array entries(Context& context, Wanted wanted) {
    Json::Array out;
    const auto table = context.book.table();
    for (const rules::RulePtr& rule : table->rules()) {
        if (wanted(rule->key, rule->json)) {
            out.push_back(entry_of(context, rule));
        }
    }
    for (const rules::Dormant& rule : context.book.dormant()) {
        if (wanted(rule.key, rule.body)) {
            out.push_back(dormant_entry(rule));
        }
    }
    return out;
}

std::string project_of(const std::string& body) {
    const auto document = Json::parse(body);
    if (!document.ok() || document->object() == nullptr) {
        return {};
    }
    const auto service = document->object()->find("serviceArguments");
    if (service == document->object()->end() || service->second.object() == nullptr) {
        return {};
    }
    const auto project = service->second.object()->find("projectId");
    const bool has_one =
        project != service->second.object()->end() && project->second.text() != nullptr;
    return has_one ? *project->second.text() : std::string();
}

Response stored(const rules::Outcome& outcome) {
    if (outcome.refusal) {
        return refusal_response(*outcome.refusal);
    }
    const rules::Rule& rule = *outcome.rule;
    return json_response(Json::Object{{"result", "Success"},
                                      {"id", rule.id},
                                      {"number", rule.number},
                                      {"generation", rule.generation},
                                      {"warnings", warnings_json(outcome.warnings)}});
}

Response post_rule(Context& context, Request& request) {
    return stored(context.book.put(request.body, actor_of(request)));
}

Response get_all(Context& context, Request& request) {
    const std::string& project = request.param("projectId");
    return json_response(Json::Object{
        {"lbAttr", entries(context, [&project](const rules::RuleKey&, const std::string& body) {
             return project.empty() || project_of(body) == project;
         })}});
}

Response get_by_id(Context& context, Request& request) {
    const auto table = context.book.table();
    if (const auto at = table->by_id(request.param("id"))) {
        return json_response(entry_of(context, table->rules()[*at]));
    }
    for (const rules::Dormant& rule : context.book.dormant()) {
        if (rule.id == request.param("id")) {
            return json_response(dormant_entry(rule));
        }
    }
    return no_rule();
}

// All rules of an address; a query parameter or a host narrows it.
Response get_by_key(Context& context, Request& request) {
    rules::RuleKey key;
    if (auto refusal = key_of(request, key)) {
        return refusal_response(*refusal);
    }
    Json::Array found = entries(context, [&](const rules::RuleKey& have, const std::string&) {
        return have.ip == key.ip && have.port == key.port && have.protocol == key.protocol &&
               (!request.has("hosturl") || have.host == key.host) &&
               (!request.has("model_name") || have.model == key.model) &&
               (!request.has("block") || have.block == key.block) &&
               (!request.has("path_prefix") || have.path_prefix == key.path_prefix) &&
               (!request.has("path_match_mode") || have.path_mode == key.path_mode);
    });
    if (found.empty()) {
        return no_rule();
    }
    return json_response(Json::Object{{"lbAttr", std::move(found)}});
}

bool is_merge_patch(std::string_view content_type) {
    std::string type(content_type.substr(0, content_type.find(';')));
    while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) {
        type.pop_back();
    }
    std::transform(type.begin(), type.end(), type.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return type.empty() || type == "application/merge-patch+json" || type == "application/json";
}

Response patch_by_key(Context& context, Request& request) {
    if (!is_merge_patch(request.content_type)) {
        return refusal_response({415, "media_type", "", "a patch must be a merge patch in JSON",
                                 "application/merge-patch+json or application/json"});
    }
    rules::RuleKey key;
    if (auto refusal = key_of(request, key)) {
        return refusal_response(*refusal);
    }
    return stored(context.book.patch(key, request.body, actor_of(request)));
}

Response deleted(const rules::Outcome& outcome) {
    if (outcome.refusal) {
        return refusal_response(*outcome.refusal);
    }
    return success();
}

Response delete_by_key(Context& context, Request& request) {
    rules::RuleKey key;
    if (auto refusal = key_of(request, key)) {
        return refusal_response(*refusal);
    }
    return deleted(context.book.remove(key, actor_of(request)));
}

// There are ranges of one port only: any other end is no rule's.
Response delete_by_range(Context& context, Request& request) {
    rules::RuleKey key;
    if (auto refusal = key_of(request, key)) {
        return refusal_response(*refusal);
    }
    const auto last = number_of<std::uint16_t>(request.param("portmax"));
    if (!last) {
        return refusal_response({400, "malformed_key", "portmax", "malformed portmax", "0..65535"});
    }
    if (*last != 0 && *last != key.port) {
        return no_rule();
    }
    return deleted(context.book.remove(key, actor_of(request)));
}

Response delete_by_name(Context& context, Request& request) {
    return deleted(context.book.remove_named(request.param("name"), actor_of(request)));
}

Response delete_all(Context& context, Request& request) {
    return deleted(context.book.remove_all(actor_of(request)));
}

constexpr Param kProject[] = {
    {"projectId", "Only the rules of this project. A filter, not a right."},
};

const Route kRoutes[] = {
    {.method = "POST",
     .pattern = "/netlox/v1/config/loadbalancer",
     .handler = post_rule,
     .summary = "Creates a rule, or replaces the one of the same key in place.",
     .body = "Rule",
     .reply = "RuleStored",
     .may = "404 409 422 503 507"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/loadbalancer/all",
     .handler = get_all,
     .summary = "Every rule with its endpoints as they are now.",
     .query = kProject,
     .reply = "RuleList"},
    {.method = "DELETE",
     .pattern = "/netlox/v1/config/loadbalancer/all",
     .handler = delete_all,
     .summary = "Deletes every rule.",
     .may = "503 507"},
    {.method = "DELETE",
     .pattern = "/netlox/v1/config/loadbalancer/name/{name}",
     .handler = delete_by_name,
     .summary = "Deletes every rule of that name.",
     .may = "404 503 507"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/loadbalancer/id/{id}",
     .handler = get_by_id,
     .summary = "One rule.",
     .reply = "RuleEntry",
     .may = "404"},
    {.method = "GET",
     .pattern =
         "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}",
     .handler = get_by_key,
     .summary = "The rules of an address; the query narrows it.",
     .query = key_params(),
     .reply = "RuleList",
     .may = "404"},
    {.method = "PATCH",
     .pattern =
         "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}",
     .handler = patch_by_key,
     .summary = "Changes the rule of exactly this key by a merge patch; null takes a field out.",
     .query = key_params(),
     .body = "RulePatch",
     .reply = "RuleStored",
     .may = "404 409 415 422 503 507"},
    {.method = "PATCH",
     .pattern = "/netlox/v1/config/loadbalancer/hosturl/{hosturl}"
                "/externalipaddress/{ip}/port/{port}/protocol/{proto}",
     .handler = patch_by_key,
     .summary = "Changes the rule of exactly this host and key by a merge patch.",
     .query = key_params(),
     .body = "RulePatch",
     .reply = "RuleStored",
     .may = "404 409 415 422 503 507"},
    {.method = "DELETE",
     .pattern =
         "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}",
     .handler = delete_by_key,
     .summary = "Deletes the rule of exactly this key.",
     .query = key_params(),
     .may = "404 503 507"},
    {.method = "DELETE",
     .pattern = "/netlox/v1/config/loadbalancer/hosturl/{hosturl}"
                "/externalipaddress/{ip}/port/{port}/protocol/{proto}",
     .handler = delete_by_key,
     .summary = "Deletes the rule of exactly this key; the host `any` is none.",
     .query = key_params(),
     .may = "404 503 507"},
    {.method = "DELETE",
     .pattern = "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}"
                "/portmax/{portmax}/protocol/{proto}",
     .handler = delete_by_range,
     .summary = "Deletes the rule of exactly this key; a range of ports is one port.",
     .query = key_params(),
     .may = "404 503 507"},
    {.method = "DELETE",
     .pattern = "/netlox/v1/config/loadbalancer/hosturl/{hosturl}/externalipaddress/{ip}"
                "/port/{port}/portmax/{portmax}/protocol/{proto}",
     .handler = delete_by_range,
     .summary = "Deletes the rule of exactly this host and key; a range of ports is one port.",
     .query = key_params(),
     .may = "404 503 507"},
};

}  // namespace

Topic rule_topic() {
    return {"rules", kRoutes};
}

}  // namespace sluice::admin
