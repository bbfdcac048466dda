#include "core/flow/explain.hpp"

#include "core/base/clock.hpp"
#include "core/base/random.hpp"
#include "core/flow/sdk_request.hpp"
#include "core/route/prompt_chain.hpp"
#include "core/rules/json_value.hpp"

namespace sluice::flow {
namespace {

Error invalid(std::string_view what) {
    return Error{Code::Invalid, std::string(what)};
}

// What of the question is not the request itself.
struct Asked {
    std::string rule, listener, path, host, x_model;
    std::uint64_t session = 0;
};

Result<Asked> read_asked(std::string_view json) {
    const auto document = rules::Json::parse(json);
    if (!document) {
        return document.error();
    }
    const auto* members = document->object();
    if (members == nullptr) {
        return invalid("an object is wanted");
    }
    Asked out;
    for (const auto& [name, value] : *members) {
        if (name == "headers" && value.object() != nullptr) {
            for (const auto& [field, text] : *value.object()) {
                if (text.text() == nullptr) {
                    return invalid("headers: a value is not text");
                }
                if (http::equals_ignore_case(field, "host")) {
                    out.host = *text.text();
                } else if (http::equals_ignore_case(field, "x-model")) {
                    out.x_model = *text.text();
                } else {
                    const http::Header header{field, *text.text()};
                    const std::uint64_t session = route::session_of({&header, 1}, nullptr, nullptr);
                    out.session = session == 0 ? out.session : session;
                }
            }
        } else if (name == "rule" && value.unsigned_integer() != nullptr) {
            out.rule = std::to_string(*value.unsigned_integer());
        } else if ((name == "rule" || name == "listener" || name == "path") &&
                   value.text() != nullptr) {
            (name == "rule"       ? out.rule
             : name == "listener" ? out.listener
                                  : out.path) = *value.text();
        } else if (name != "body") {
            return invalid(name +
                           " is unknown or of the wrong type; known: rule, listener, path, "
                           "headers, body");
        }
    }
    if (out.rule.empty() == out.listener.empty()) {
        return invalid("one of rule and listener is wanted");
    }
    return out;
}

Result<route::ServicePtr> find_service(const Directory& directory, const Asked& asked,
                                       std::string_view model) {
    const auto& all = directory.table->rules();
    if (!asked.rule.empty()) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i]->id == asked.rule || all[i]->name == asked.rule ||
                std::to_string(all[i]->number) == asked.rule) {
                return directory.services[i];
            }
        }
        return Error{Code::NotFound, "no rule " + asked.rule};
    }
    const auto address = net::Address::parse(asked.listener);
    if (!address) {
        return address.error();
    }
    const rules::Lookup found =
        directory.table->find({address->ip(), address->port()}, asked.host, asked.path, model);
    if (!found.rule) {
        return Error{Code::NotFound, found.miss == rules::Miss::ModelUnavailable
                                         ? "model_unavailable"
                                         : "no rule of that listener takes the request"};
    }
    return directory.services[*found.rule];
}

void add_leg(const route::Service& at, route::LegKind kind, const route::Decision& decision,
             route::Receipt& receipt) {
    route::LegRecord leg;
    leg.kind = kind;
    leg.endpoint = at.names->endpoints[decision.index];
    leg.rank = decision.rank;
    leg.tier = decision.tier;
    leg.matched_blocks = decision.matched_blocks;
    leg.verdict = "dry_run";
    receipt.legs.push_back(leg);
    if (decision.block_tokens != 0 && kind != route::LegKind::Decode) {
        receipt.predicted_cached =
            std::int64_t{decision.matched_blocks} * std::int64_t{decision.block_tokens};
    }
}

// Both legs as they would be chosen now, nobody waiting for a place; one where the request is not
// split or a role has nobody.
void explain_pair(route::Question question, const SdkRequest::From& from, route::Ladder& ladder,
                  route::Chain& chain, route::Receipt& receipt) {
    const route::Service& at = question.service;
    const rules::PdSpec& spec = at.rule->pd;
    sluice_plan plan{};
    plan.size = sizeof plan;
    plan.kind = SLUICE_PLAN_WHOLE;
    if (from.view != nullptr) {
        SdkRequest request(from);
        if (at.engine->plan(request.at_attempt(0), plan, nullptr) == SLUICE_E_UNSUPPORTED) {
            receipt.outcome = route::Outcome::Refused;
            receipt.error_code = "pd_unsupported_request";
            return;
        }
    }
    const bool is_short = from.prompt != nullptr && from.prompt->miss.empty() &&
                          from.prompt->tokens.size() < spec.min_prompt_tokens;
    if (spec.is_cache_aware && from.view != nullptr) {
        route::assign_chain(chain, *from.view, from.facts, from.served_model, from.prompt);
        question.chain = &chain;
    }
    question.role = rules::kRoleDecode;
    const route::Decision decode = ladder.choose(question, receipt);
    route::Decision prefill;
    const bool is_held = decode.is_found && from.prompt != nullptr &&
                         route::holds_prompt(spec, decode, from.prompt->tokens.size());
    if (is_held) {
        receipt.misses.push_back({route::Tier::None, "decode_holds_prompt"});
    }
    if (plan.kind != SLUICE_PLAN_WHOLE && !is_short && !is_held) {
        question.role = rules::kRolePrefill;
        prefill = ladder.choose(question, receipt);
        if (prefill.is_found && decode.is_found) {
            add_leg(at, route::LegKind::Prefill, prefill, receipt);
            add_leg(at, route::LegKind::Decode, decode, receipt);
            return;
        }
        if (prefill.to_wait_for) {
            receipt.outcome = route::Outcome::Refused;
            receipt.error_code = "pd_overloaded";
            return;
        }
    } else if (decode.is_found) {
        add_leg(at, route::LegKind::Whole, decode, receipt);
        return;
    }
    question.role = rules::kRoleWhole;
    route::Decision spare = ladder.choose(question, receipt);
    spare.tier = route::Tier::Rescue;
    if (!spare.is_found && decode.is_found && spec.has_decode_fallback) {
        spare = decode;
    }
    if (spare.is_found) {
        add_leg(at, route::LegKind::Whole, spare, receipt);
        return;
    }
    receipt.outcome = route::Outcome::Refused;
    receipt.error_code = "pd_pool_unavailable";
}

}  // namespace

Result<std::string> explain(Shared& shared, std::string_view json) {
    auto asked = read_asked(json);
    if (!asked) {
        return std::move(asked).error();
    }
    // The body is viewed where it stands, so that it is read as a request's body would be.
    std::string text;
    text.reserve(json.size() + json::kSlack);
    text = json;
    json::BodyReader outer;
    json::BodyReader reader;
    const auto question = outer.parse(text);
    if (!question) {
        return question.error();
    }
    const json::Body* body = nullptr;
    if (const json::Field* field = (*question)->find("body")) {
        const auto viewed = reader.parse((*question)->value(*field));
        if (!viewed) {
            return Error(viewed.error()).at("body");
        }
        body = *viewed;
    }
    if (asked->path.empty()) {
        const bool is_chat = body != nullptr && body->find("messages") != nullptr;
        asked->path = is_chat ? "/v1/chat/completions" : "/v1/completions";
    }

    route::Receipt receipt;
    receipt.id = random_hex_id();
    receipt.started_us = wall_us();
    route::Facts facts;
    const auto refusal = route::read_facts(asked->path, asked->x_model, body, &reader, facts);
    if (refusal) {
        return invalid(refusal->message);
    }
    const auto directory = shared.directory.get();
    auto service = find_service(*directory, *asked, facts.model);
    if (!service) {
        return std::move(service).error();
    }
    const route::Service& at = **service;
    receipt.rule = at.names->rule;
    receipt.rule_number = at.rule->number;
    receipt.keep = at.names;
    receipt.model = facts.model;
    receipt.api = facts.api;
    receipt.is_stream = facts.is_stream;
    if (!at.rule->is_admin_up) {
        receipt.outcome = route::Outcome::Refused;
        receipt.error_code = "rule_disabled";
        return receipt.to_json();
    }

    std::string served = facts.model;
    if (const auto alias = at.rule->model_aliases.find(served);
        alias != at.rule->model_aliases.end()) {
        served = alias->second;
    }
    route::Prompt prompt;
    const bool has_prompt =
        (at.kv || at.rule->pd.min_prompt_tokens > 0) && route::has_prompt(facts);
    if (has_prompt) {
        const std::uint64_t begun = now_us();
        std::shared_ptr<const tokens::Model> model;
        if (!route::is_token_prompt(facts)) {
            model = shared.library.find(route::tokenizer_name(at, served));
        }
        route::read_prompt(facts, model.get(), reader, prompt);
        receipt.tokenize_us = now_us() - begun;
        receipt.cached_segments = prompt.cached_segments;
    }
    route::Ladder ladder;
    route::Chain chain;
    route::Question wanted{.service = at,
                           .facts = facts,
                           .served_model = served,
                           .prompt = has_prompt ? &prompt : nullptr,
                           .tried = {},
                           .request_id = receipt.id,
                           .client = {},
                           .is_dry_run = true,
                           .now_us = now_us()};
    if (at.pd) {
        wanted.session = asked->session;
        if (wanted.session == 0) {
            wanted.session = route::session_of({}, body, &reader);
        }
        explain_pair(wanted,
                     {.facts = facts,
                      .request_id = receipt.id,
                      .served_model = served,
                      .client = {},
                      .body = body == nullptr ? std::string_view() : body->text(),
                      .view = body,
                      .prompt = wanted.prompt,
                      .is_dry_run = true},
                     ladder, chain, receipt);
        return receipt.to_json();
    }
    const route::Decision decision = ladder.choose(wanted, receipt);
    if (!decision.is_found) {
        receipt.outcome = route::Outcome::Refused;
        receipt.error_code = "no_healthy_backend";
        return receipt.to_json();
    }
    add_leg(at, route::LegKind::Whole, decision, receipt);
    return receipt.to_json();
}

}  // namespace sluice::flow
