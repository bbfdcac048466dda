#include "core/rules/edit.hpp"

#include "core/rules/auth_file.hpp"
#include "core/rules/field.hpp"
#include "core/rules/secrets.hpp"

namespace sluice::rules {
namespace {

// Of a text that parse_rule() made.
Json::Object service_of(const Rule& rule) {
    auto document = Json::parse(rule.json);
    return document.ok() ? *document->object()->at("serviceArguments").object() : Json::Object{};
}

const Json* member(const Json::Object& object, std::string_view name) {
    const auto it = object.find(name);
    return it == object.end() ? nullptr : &it->second;
}

void set_argument(std::string& body, const std::string& name, std::optional<Json> value) {
    auto document = Json::parse(body);
    if (!document) {
        return;  // never: parse_rule() made it
    }
    Json::Object& service = *document->object()->at("serviceArguments").object();
    if (value) {
        service.insert_or_assign(name, std::move(*value));
    } else {
        service.erase(name);
    }
    body = document->dump();
}

void set_effective(std::string& effective, const char* name, Json value) {
    if (auto values = Json::parse(effective); values.ok()) {
        values->object()->insert_or_assign(name, std::move(value));
        effective = values->dump();
    }
}

// What is shown as *** and sent back is what the rule has.
std::optional<Refusal> carry_plugin_secrets(Rule& rule, const Rule* previous) {
    auto config = Json::parse(rule.plugin_config);
    if (!config || rule.plugin_config.find(kHidden) == std::string::npos) {
        return std::nullopt;
    }
    const auto known = Json::parse(previous == nullptr ? "{}" : previous->plugin_config);
    const std::string missing = fill_secrets(*config, known.ok() ? &*known : nullptr);
    if (!missing.empty()) {
        return Refusal{400, "secret_missing", "plugin_config",
                       "plugin_config hides " + missing + " and there is no rule that has it",
                       "the secret itself"};
    }
    rule.plugin_config = config->dump();
    set_argument(rule.json, "plugin_config", *config);
    set_effective(rule.effective, "plugin_config", *config);
    return std::nullopt;
}

}  // namespace

bool is_of_key(std::string_view name) {
    for (const std::string_view part : {"externalIP", "port", "portMax", "protocol", "block",
                                        "host", "path_prefix", "path_match_mode", "model_name"}) {
        if (name == part) {
            return true;
        }
    }
    return false;
}

Refusal immutable(std::string field, const std::string& message) {
    return {409, "immutable", std::move(field),
            message + "; delete the rule and create it anew to change it",
            "the value the rule has"};
}

std::optional<std::string> changed_immutable(const Rule& next, const Rule& previous) {
    if (next.engine != previous.engine) {
        return "kvEngineType";
    }
    const Json::Object now = service_of(next);
    const Json::Object before = service_of(previous);
    for (const Field& field : service_fields()) {
        // Two ways to name one engine are one engine.
        const bool is_engine = field.name == "engine" || field.name == "kvEngineType";
        if (field.is_immutable && !is_engine && !is_of_key(field.name) &&
            !is_same_value(field, member(now, field.name), member(before, field.name))) {
            return std::string(field.name);
        }
    }
    return std::nullopt;
}

std::optional<Refusal> carry_over(Rule& rule, const Rule* previous,
                                  std::vector<Warning>& warnings) {
    const bool is_up = previous == nullptr || previous->is_admin_up;
    if (rule.is_admin_up != is_up) {
        if (!rule.is_admin_up) {
            warnings.push_back({"admin_state_kept", "adminStateUp",
                                "a POST does not switch a rule off or on; PATCH does"});
        }
        rule.is_admin_up = is_up;
        set_argument(rule.json, "adminStateUp", is_up ? std::nullopt : std::optional<Json>(false));
        set_effective(rule.effective, "adminStateUp", is_up);
    }
    for (const KeyFileField& field : key_file_fields()) {
        if (rule.*field.path != kHidden) {
            continue;
        }
        if (previous == nullptr || (previous->*field.path).empty()) {
            return hidden_path_unknown(field.name);
        }
        rule.*field.path = previous->*field.path;
        set_argument(rule.json, std::string(field.name), Json(rule.*field.path));
    }
    if (auto refusal = carry_plugin_secrets(rule, previous)) {
        return refusal;
    }
    return check_key_files(rule);
}

}  // namespace sluice::rules
