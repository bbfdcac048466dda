// Merge patches.
#include <iterator>

#include "core/rules/auth_file.hpp"
#include "core/rules/edit.hpp"
#include "core/rules/field.hpp"
#include "core/rules/key.hpp"
#include "core/rules/secrets.hpp"

namespace sluice::rules {
namespace {

// RFC 7386, section 2.
void merge(Json& target, const Json& patch) {
    const Json::Object* changes = patch.object();
    if (changes == nullptr) {
        target = patch;
        return;
    }
    if (target.object() == nullptr) {
        target = Json(Json::Object{});
    }
    for (const auto& [name, value] : *changes) {
        if (value.is_null()) {
            target.object()->erase(name);
        } else {
            merge((*target.object())[name], value);
        }
    }
}

std::uint64_t number_of(const Json* value, std::uint64_t otherwise) {
    const auto* n = value == nullptr ? nullptr : value->unsigned_integer();
    return n == nullptr ? otherwise : *n;
}

// Whether the rule has this value already, however it is spelled. Null: the patch takes it out.
bool keeps(const Field& field, const Json* value, const Rule& rule, const Json::Object& stored) {
    const std::string text = value == nullptr || value->text() == nullptr ? "" : *value->text();
    const std::string_view name = field.name;
    RuleKey key = rule.key;
    if (name == "id") {
        return text == rule.id;
    }
    if (name == "engine" || name == "kvEngineType") {
        const Json fallback = default_of(field);
        return (value == nullptr ? *fallback.text() : text) == rule.engine;
    }
    if (name == "port") {
        return number_of(value, 0) == key.port;
    }
    if (name == "block") {
        return (value == nullptr || value->unsigned_integer() != nullptr) &&
               number_of(value, 0) == key.block;
    }
    if (name == "portMax") {
        const std::uint64_t last = number_of(value, value == nullptr ? 0 : ~0ULL);
        return last == 0 || last == key.port;
    }
    if (name == "externalIP") {
        key.ip = text;
    } else if (name == "protocol") {
        key.protocol = text;
    } else if (name == "host") {
        key.host = text;
    } else if (name == "path_prefix") {
        key.path_prefix = text;
    } else if (name == "path_match_mode") {
        key.path_mode = text;
    } else if (name == "model_name") {
        key.model = text;
    } else {
        const auto it = stored.find(name);
        return is_same_value(field, value, it == stored.end() ? nullptr : &it->second);
    }
    return !normalise(key) && key == rule.key;
}

// Known names and their types; read-only members are taken out. A value's range and what it means
// beside others is seen in the whole.
std::optional<Refusal> check_names(std::span<const Field> table, Json::Object& patch) {
    for (auto it = patch.begin(); it != patch.end();) {
        const Field* field = find_field(table, it->first);
        if (field == nullptr) {
            return unknown_field(table, it->first, it->first);
        }
        if (field->standing == Standing::ReadOnly) {
            it = patch.erase(it);
            continue;
        }
        // Nulls inside a map take members out; what stays is seen in the whole.
        const bool is_map = field->type == Type::TextMap && it->second.object() != nullptr;
        if (!it->second.is_null() && !is_map) {
            if (auto refusal = check_type(*field, it->second, it->first)) {
                return refusal;
            }
        }
        ++it;
    }
    return std::nullopt;
}

std::optional<Refusal> check_service(Json::Object& patch, const Rule& previous,
                                     const Json::Object& stored) {
    if (auto refusal = check_names(service_fields(), patch)) {
        return refusal;
    }
    if (const auto oper = patch.find("oper");
        oper != patch.end() && !oper->second.is_null() && oper->second != Json(0)) {
        return Refusal{400, "oper_unused", "oper",
                       "oper is for POST; a patch gives the endpoints as they shall be",
                       "absent or 0"};
    }
    for (auto it = patch.begin(); it != patch.end();) {
        const Field* field = find_field(service_fields(), it->first);
        if (!field->is_immutable) {
            ++it;
            continue;
        }
        if (!keeps(*field, it->second.is_null() ? nullptr : &it->second, previous, stored)) {
            return immutable(it->first, it->first + " of a live rule cannot change");
        }
        // Of the key and the id the stored spelling stays.
        it = is_of_key(it->first) || it->first == "id" ? patch.erase(it) : std::next(it);
    }
    for (const KeyFileField& field : key_file_fields()) {
        const auto path = patch.find(std::string(field.name));
        if (path == patch.end() || path->second != Json(kHidden)) {
            continue;
        }
        if ((previous.*field.path).empty()) {
            return hidden_path_unknown(field.name);
        }
        patch.erase(path);
    }
    // Shown as ***, and what is sent back so stays as it is.
    if (const auto config = patch.find("plugin_config"); config != patch.end()) {
        const auto known = stored.find("plugin_config");
        const std::string missing =
            fill_secrets(config->second, known == stored.end() ? nullptr : &known->second);
        if (!missing.empty()) {
            return Refusal{400, "secret_missing", "plugin_config",
                           "plugin_config hides " + missing + " and the rule does not have it",
                           "the secret itself"};
        }
    }
    return std::nullopt;
}

}  // namespace

Edited merged(const Rule& previous, std::string_view text) {
    auto document = read_document(text);
    if (auto* refusal = std::get_if<Refusal>(&document)) {
        return std::move(*refusal);
    }
    Json& patch = std::get<Json>(document);
    auto stored = Json::parse(previous.json);
    if (!stored) {
        return Refusal{500, "internal", "", "the stored rule cannot be read", {}};
    }
    if (auto refusal = check_names(body_fields(), *patch.object())) {
        return *refusal;
    }
    if (const auto it = patch.object()->find("serviceArguments");
        it != patch.object()->end() && it->second.object() != nullptr) {
        const Json::Object& have = *stored->object()->at("serviceArguments").object();
        if (auto refusal = check_service(*it->second.object(), previous, have)) {
            return *refusal;
        }
    }
    merge(*stored, patch);
    return std::move(*stored);
}

}  // namespace sluice::rules
