// /config/loadbalancer
#include <charconv>

#include "core/admin/read_back.hpp"
#include "core/admin/router.hpp"
#include "core/base/log.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

constexpr std::string_view kKeyQuery = "path_prefix path_match_mode model_name block bgp";

rules::Actor actor_of(const Request& request) {
    return {request.actor, request.address};
}

template <class N>
bool to_number(const std::string& text, N& out) {
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
    return ec == std::errc() && end == text.data() + text.size() && !text.empty();
}

rules::Refusal malformed(const char* what) {
    return {400, "malformed_key", what, std::string("malformed ") + what, ""};
}

// The key that path and query spell.
std::optional<rules::Refusal> key_of(const Request& request, rules::RuleKey& key) {
    key.ip = request.param("ip");
    key.protocol = request.param("proto");
    key.path_prefix = request.param("path_prefix");
    key.path_mode = request.param("path_match_mode");
    key.model = request.param("model_name");
    key.host = request.param("hosturl");
    if (key.host == "any") {
        key.host.clear();
    }
    if (!to_number(request.param("port"), key.port)) {
        return malformed("port");
    }
    if (request.has("block") && !to_number(request.param("block"), key.block)) {
        return malformed("block");
    }
    return rules::normalise(key);
}

Json entry_of(Context& context, const rules::RulePtr& rule) {
    return rule_entry(rule, context.providers.rule_status(rule),
                      context.book.warnings(rule->number));
}

// Every rule, stored order, of which `wanted(key, body)` says yes.
template <class Wanted>
Json::Array entries(Context& context, Wanted wanted) {
    Json::Array out;
    for (const rules::RulePtr& rule : context.book.table()->rules()) {
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

Response no_rule() {
    return refusal_response({404, "no_rule", "", "no-rule error: there is no such rule", ""});
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

Response post_rule(Context& context, Request& request) {
    const rules::Outcome outcome = context.book.put(request.body, actor_of(request));
    if (outcome.refusal) {
        return refusal_response(*outcome.refusal);
    }
    const rules::Rule& rule = *outcome.rule;
    log::info("rule stored", {{"id", rule.id},
                              {"number", rule.number},
                              {"generation", rule.generation},
                              {"endpoints", rule.endpoints.size()},
                              {"by", request.actor},
                              {"from", request.address}});
    return json_response(Json::Object{{"result", "Success"},
                                      {"id", rule.id},
                                      {"number", rule.number},
                                      {"generation", rule.generation},
                                      {"warnings", warnings_json(outcome.warnings)}});
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

Response deleted(const rules::Outcome& outcome, const Request& request) {
    if (outcome.refusal) {
        return refusal_response(*outcome.refusal);
    }
    log::info("rules deleted",
              {{"path", request.path}, {"by", request.actor}, {"from", request.address}});
    return success();
}

Response delete_by_key(Context& context, Request& request) {
    rules::RuleKey key;
    if (auto refusal = key_of(request, key)) {
        return refusal_response(*refusal);
    }
    return deleted(context.book.remove(key, actor_of(request)), request);
}

Response delete_by_name(Context& context, Request& request) {
    return deleted(context.book.remove_named(request.param("name"), actor_of(request)), request);
}

Response delete_all(Context& context, Request& request) {
    return deleted(context.book.remove_all(actor_of(request)), request);
}

constexpr Route kRoutes[] = {
    {"POST", "/netlox/v1/config/loadbalancer", post_rule, {}, false, true},
    {"GET", "/netlox/v1/config/loadbalancer/all", get_all, "projectId"},
    {"DELETE", "/netlox/v1/config/loadbalancer/all", delete_all},
    {"DELETE", "/netlox/v1/config/loadbalancer/name/{name}", delete_by_name},
    {"GET", "/netlox/v1/config/loadbalancer/id/{id}", get_by_id},
    {"GET", "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}",
     get_by_key, kKeyQuery},
    {"DELETE", "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}",
     delete_by_key, kKeyQuery},
    {"DELETE",
     "/netlox/v1/config/loadbalancer/hosturl/{hosturl}"
     "/externalipaddress/{ip}/port/{port}/protocol/{proto}",
     delete_by_key, kKeyQuery},
};

}  // namespace

std::span<const Route> rule_routes() {
    return kRoutes;
}

}  // namespace sluice::admin
