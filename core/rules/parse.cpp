#include "core/rules/parse.hpp"

#include "core/rules/field.hpp"
#include "core/rules/key.hpp"
#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

Parsed refused(Refusal refusal) {
    Parsed out;
    out.refusal = std::move(refusal);
    return out;
}

bool is_id(std::string_view id) {
    return id.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-") ==
           std::string_view::npos;
}

std::optional<Refusal> take_names(const Effective& in, Draft& out) {
    out.rule.id = in.text("id");
    out.rule.name = in.text("name");
    if (!is_id(out.rule.id)) {
        return Refusal{400, "malformed_id", "id", "id holds something else than allowed",
                       "letters, digits and . _ : -"};
    }
    return std::nullopt;
}

std::optional<Refusal> take_service(Effective& in, const Defaults& defaults, const Loaded& loaded,
                                    Draft& out) {
    if (auto refusal = take_names(in, out)) {
        return refusal;
    }
    if (auto refusal = take_key(in, out)) {
        return refusal;
    }
    if (auto refusal = take_probe(in, out)) {
        return refusal;
    }
    if (auto refusal = take_limits(in, out)) {
        return refusal;
    }
    if (auto refusal = take_plugins(in, loaded, out)) {
        return refusal;
    }
    return take_kv(in, defaults, out);
}

}  // namespace

std::optional<Refusal> take_key(const Effective& in, Draft& out) {
    RuleKey& key = out.rule.key;
    key.ip = in.text("externalIP");
    key.port = in.u16("port");
    key.protocol = in.text("protocol");
    key.block = in.u32("block");
    key.host = in.text("host");
    key.path_prefix = in.text("path_prefix");
    key.path_mode = in.text("path_match_mode");
    key.model = in.text("model_name");
    if (key.block != 0) {
        out.warnings.push_back(
            {"no_effect", "block", "marks are not seen here: the rule takes unmarked traffic"});
    }
    return normalise(key);
}

Parsed parse_rule(std::string_view body, const Defaults& defaults, const Loaded& loaded) {
    auto document = Json::parse(body);
    if (!document) {
        const bool is_big = document.error().code == Code::Limit;
        return refused({is_big ? 413 : 400,
                        is_big ? "body_too_large" : "malformed_json",
                        "",
                        "request body: " + document.error().what,
                        {}});
    }
    Json::Object* top = document->object();
    if (top == nullptr) {
        return refused({400, "malformed_json", "",
                        "request body must be an object, not " + std::string(document->kind()),
                        "an object with serviceArguments and endpoints"});
    }
    if (auto refusal = check_object(body_fields(), *top, "")) {
        return refused(std::move(*refusal));
    }
    Json::Object& service = *top->find("serviceArguments")->second.object();
    if (auto refusal = check_object(service_fields(), service, "")) {
        return refused(std::move(*refusal));
    }
    Draft draft;
    if (auto refusal = take_endpoints(*top->find("endpoints")->second.array(), draft)) {
        return refused(std::move(*refusal));
    }
    if (const auto sources = top->find("allowedSources"); sources != top->end()) {
        if (auto refusal = take_sources(*sources->second.array(), draft)) {
            return refused(std::move(*refusal));
        }
        if (sources->second.array()->empty()) {
            top->erase(sources);  // says nothing
        }
    }
    Effective effective(service, defaults);
    if (auto refusal = take_service(effective, defaults, loaded, draft)) {
        return refused(std::move(*refusal));
    }
    warn_about_stored(service_fields(), service, "", draft.warnings);

    Parsed out;
    out.rule = std::move(draft.rule);
    out.warnings = std::move(draft.warnings);
    // The identity is the rule's, not the body's.
    service.erase("id");
    Json::Object in_force = effective.values();
    in_force.erase("id");
    out.rule.effective = Json(std::move(in_force)).dump();
    // What says nothing is not kept, so that two spellings of one rule are one text.
    if (out.rule.is_admin_up) {
        service.erase("adminStateUp");
    }
    for (const char* name : {"secondaryIPs", "secondaryVIPs"}) {
        top->erase(name);
    }
    out.rule.json = document->dump();
    return out;
}

}  // namespace sluice::rules
