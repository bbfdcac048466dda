#include "core/rules/secrets.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/rules/field.hpp"

namespace sluice::rules {
namespace {

constexpr std::array<std::string_view, 10> kEndings = {
    "key_data", "keydata", "private_key", "api_key", "apikey",
    "raw_key",  "secret",  "password",    "passwd",  "token"};

const Json* member_of(const Json* in, std::string_view name) {
    if (in == nullptr || in->object() == nullptr) {
        return nullptr;
    }
    const auto at = in->object()->find(name);
    return at == in->object()->end() ? nullptr : &at->second;
}

}  // namespace

bool is_secret(std::string_view member) {
    if (const Field* field = find_field(service_fields(), member)) {
        return field->is_hidden;
    }
    std::string lower(member);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::any_of(kEndings.begin(), kEndings.end(),
                       [&lower](std::string_view ending) { return lower.ends_with(ending); });
}

void hide_secrets(Json& document) {
    if (Json::Array* array = document.array()) {
        for (Json& one : *array) {
            hide_secrets(one);
        }
    }
    if (Json::Object* object = document.object()) {
        for (auto& [name, value] : *object) {
            // A switch or a number of that name is a setting, not a secret.
            const bool can_hold_one = (value.text() != nullptr && !value.text()->empty()) ||
                                      value.object() != nullptr || value.array() != nullptr;
            if (is_secret(name) && can_hold_one) {
                value = Json(kHidden);
            } else {
                hide_secrets(value);
            }
        }
    }
}

std::string without_secrets(std::string_view body) {
    auto document = Json::parse(body);
    if (!document || document->object() == nullptr) {
        return std::string(body);
    }
    hide_secrets(*document);
    return document->dump();
}

std::string fill_secrets(Json& document, const Json* known) {
    if (Json::Array* array = document.array()) {
        const Json::Array* others = known == nullptr ? nullptr : known->array();
        for (std::size_t i = 0; i < array->size(); ++i) {
            const bool has_other = others != nullptr && i < others->size();
            std::string missing = fill_secrets((*array)[i], has_other ? &(*others)[i] : nullptr);
            if (!missing.empty()) {
                return missing;
            }
        }
    }
    if (Json::Object* object = document.object()) {
        for (auto& [name, value] : *object) {
            const Json* other = member_of(known, name);
            if (is_secret(name) && value.text() != nullptr && *value.text() == kHidden) {
                if (other == nullptr) {
                    return name;
                }
                value = *other;
                continue;
            }
            std::string missing = fill_secrets(value, other);
            if (!missing.empty()) {
                return missing;
            }
        }
    }
    return {};
}

}  // namespace sluice::rules
