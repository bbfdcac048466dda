#include "core/rules/effective.hpp"

#include <optional>

#include "core/rules/field.hpp"

namespace sluice::rules {
namespace {

std::optional<Json> fallback_of(const Field& field, const std::string& path,
                                const Defaults& defaults) {
    const auto process = defaults.value(path);
    const std::string text = process.value_or(std::string(field.fallback));
    if (text.empty()) {
        return std::nullopt;
    }
    auto value = Json::parse(text);
    if (!value) {
        return std::nullopt;
    }
    return std::move(*value);
}

bool counts_as_given(const Field& field, const Json& value) {
    return !(field.zero_is_absent && value == Json(0));
}

Json::Object fill(std::span<const Field> table, const Json::Object& given,
                  const std::string& prefix, const Defaults& defaults) {
    Json::Object out;
    for (const Field& field : table) {
        if (field.standing == Standing::ReadOnly || field.standing == Standing::Stored) {
            continue;
        }
        const auto it = given.find(field.name);
        const std::string path = prefix + std::string(field.name);
        if (!field.members.empty()) {
            static const Json::Object kNothing;
            const Json::Object& inner = it == given.end() ? kNothing : *it->second.object();
            out.emplace(field.name, fill(field.members, inner, path + ".", defaults));
        } else if (it != given.end() && counts_as_given(field, it->second)) {
            out.emplace(field.name, it->second);
        } else if (auto value = fallback_of(field, path, defaults)) {
            out.emplace(field.name, std::move(*value));
        }
    }
    return out;
}

const Json* find_in(const Json::Object& object, std::string_view name) {
    const std::size_t dot = name.find('.');
    const auto it = object.find(name.substr(0, dot));
    if (it == object.end()) {
        return nullptr;
    }
    if (dot == std::string_view::npos) {
        return &it->second;
    }
    const Json::Object* inner = it->second.object();
    return inner == nullptr ? nullptr : find_in(*inner, name.substr(dot + 1));
}

}  // namespace

Effective::Effective(const Json::Object& given, const Defaults& defaults)
    : given_(given), values_(fill(service_fields(), given, "", defaults)) {}

const Json* Effective::find(std::string_view name) const {
    return find_in(values_, name);
}

const Json* Effective::given(std::string_view name) const {
    return find_in(given_, name);
}

std::uint64_t Effective::u64(std::string_view name) const {
    const Json* value = find(name);
    const auto* n = value == nullptr ? nullptr : value->unsigned_integer();
    return n == nullptr ? 0 : *n;
}

std::uint32_t Effective::u32(std::string_view name) const {
    return static_cast<std::uint32_t>(u64(name));
}

std::uint16_t Effective::u16(std::string_view name) const {
    return static_cast<std::uint16_t>(u64(name));
}

bool Effective::boolean(std::string_view name) const {
    const Json* value = find(name);
    const bool* b = value == nullptr ? nullptr : value->boolean();
    return b != nullptr && *b;
}

std::string Effective::text(std::string_view name) const {
    const Json* value = find(name);
    const auto* t = value == nullptr ? nullptr : value->text();
    return t == nullptr ? std::string() : *t;
}

void Effective::set(std::string_view name, Json value) {
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos) {
        values_.insert_or_assign(std::string(name), std::move(value));
        return;
    }
    const auto it = values_.find(name.substr(0, dot));
    if (it != values_.end() && it->second.object() != nullptr) {
        it->second.object()->insert_or_assign(std::string(name.substr(dot + 1)), std::move(value));
    }
}

}  // namespace sluice::rules
