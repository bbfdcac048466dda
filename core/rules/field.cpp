#include "core/rules/field.hpp"

#include <algorithm>
#include <cctype>

namespace sluice::rules {
namespace {

bool is_among(std::string_view list, std::string_view word) {
    while (true) {
        const std::size_t bar = list.find('|');
        if (list.substr(0, bar) == word) {
            return true;
        }
        if (bar == std::string_view::npos) {
            return false;
        }
        list.remove_prefix(bar + 1);
    }
}

std::string_view type_name(Type type) {
    switch (type) {
        case Type::Bool:
            return "true or false";
        case Type::Uint:
            return "an integer";
        case Type::Text:
            return "text";
        case Type::TextMap:
            return "an object of text members";
        case Type::Object:
            return "an object";
        case Type::List:
            return "a list";
    }
    return "";
}

bool is_of_type(Type type, const Json& value) {
    switch (type) {
        case Type::Bool:
            return value.boolean() != nullptr;
        case Type::Uint:
            return value.unsigned_integer() != nullptr || value.negative_integer() != nullptr;
        case Type::Text:
            return value.text() != nullptr;
        case Type::TextMap:
            return value.object() != nullptr &&
                   std::all_of(value.object()->begin(), value.object()->end(),
                               [](const auto& m) { return m.second.text() != nullptr; });
        case Type::Object:
            return value.object() != nullptr;
        case Type::List:
            return value.array() != nullptr;
    }
    return false;
}

bool has_control_character(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7F;
    });
}

Refusal outside(const Field& field, const std::string& where, std::string_view code,
                std::string message) {
    return Refusal{field.status, std::string(field.code.empty() ? code : field.code), where,
                   std::move(message), allowed_text(field)};
}

bool is_default(const Field& field, const Json& value) {
    if (field.zero_is_absent && value == Json(0)) {
        return true;
    }
    if (!field.fallback.empty()) {
        const auto fallback = Json::parse(field.fallback);
        if (fallback.ok() && *fallback == value) {
            return true;
        }
        return field.type == Type::Text && value.text()->empty() && is_among(field.one_of, "");
    }
    switch (field.type) {
        case Type::Bool:
            return !*value.boolean();
        case Type::Uint:
            return value == Json(0);
        case Type::Text:
            return value.text()->empty();
        case Type::TextMap:
        case Type::Object:
            return value.object()->empty();
        case Type::List:
            return value.array()->empty();
    }
    return false;
}

Refusal not_supported_yet(const std::string& where, const Field& field, const Json& value) {
    std::string have = field.built.empty()
                           ? (field.fallback.empty() ? "absent" : std::string(field.fallback))
                           : spoken(field.built);
    return Refusal{400, "not_supported_yet", where,
                   where + " is " + shown(field, value) + ": known, but not supported yet",
                   std::move(have)};
}

// Bytes of other protocols, where a line end is as good as a letter.
bool is_sent_as_it_is(const Field& field) {
    return field.name == "probereq" || field.name == "proberesp";
}

std::optional<Refusal> check_text_map(const Field& field, const Json::Object& map,
                                      const std::string& where) {
    if (map.size() > field.max) {
        return outside(field, where, "out_of_range", where + ": too many members");
    }
    for (const auto& [name, value] : map) {
        const std::string& text = *value.text();
        if (name.empty() || name.size() > 256 || text.size() > 4096 ||
            has_control_character(name) || has_control_character(text)) {
            return Refusal{400,
                           "malformed_text",
                           where,
                           where +
                               ": a name has 1..256 and a value at most 4096 bytes, without "
                               "control characters",
                           {}};
        }
    }
    return std::nullopt;
}

std::optional<Refusal> check_range(const Field& field, const Json& value,
                                   const std::string& where) {
    switch (field.type) {
        case Type::Bool:
            return std::nullopt;
        case Type::Uint: {
            const auto* n = value.unsigned_integer();
            if (n == nullptr || *n < field.min || *n > field.max) {
                return outside(
                    field, where, "out_of_range",
                    where + " is " + shown(field, value) + ", allowed is " + allowed_text(field));
            }
            return std::nullopt;
        }
        case Type::Text: {
            const std::string& text = *value.text();
            if (!field.one_of.empty() && !is_among(field.one_of, text)) {
                return outside(field, where, "unknown_value",
                               where + " is " + shown(field, value) +
                                   ", which is unknown; there are " + spoken(field.one_of));
            }
            if (text.size() > field.max) {
                return outside(field, where, "out_of_range",
                               where + ": longer than " + std::to_string(field.max) + " bytes");
            }
            if (has_control_character(text) && !is_sent_as_it_is(field)) {
                return Refusal{
                    400, "malformed_text", where, where + ": control character in text", {}};
            }
            return std::nullopt;
        }
        case Type::TextMap:
            return check_text_map(field, *value.object(), where);
        case Type::Object:
            if (!field.members.empty()) {
                Json::Object copy = *value.object();
                return check_object(field.members, copy, where + ".");
            }
            return std::nullopt;
        case Type::List:
            if (value.array()->size() > field.max) {
                return outside(field, where, "out_of_range",
                               where + ": more than " + std::to_string(field.max) + " entries");
            }
            return std::nullopt;
    }
    return std::nullopt;
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return out;
}

}  // namespace

std::string shown(const Field& field, const Json& value) {
    constexpr std::size_t kMost = 64;
    if (field.is_hidden) {
        return "***";
    }
    std::string out = value.dump();
    if (out.size() > kMost) {
        std::size_t end = kMost;
        while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0U) == 0x80U) {
            --end;
        }
        out.resize(end);
        out += "...";
    }
    return out;
}

const Field* find_field(std::span<const Field> table, std::string_view name) {
    const auto it =
        std::find_if(table.begin(), table.end(), [&](const Field& f) { return f.name == name; });
    return it == table.end() ? nullptr : &*it;
}

std::string spoken(std::string_view list) {
    std::string out;
    while (!list.empty() && list.back() == '|') {
        list.remove_suffix(1);
    }
    while (!list.empty() && list.front() == '|') {
        list.remove_prefix(1);
    }
    while (!list.empty()) {
        const std::size_t bar = list.find('|');
        if (!out.empty()) {
            out += bar == std::string_view::npos ? " or " : ", ";
        }
        out += list.substr(0, bar);
        list.remove_prefix(bar == std::string_view::npos ? list.size() : bar + 1);
    }
    return out;
}

std::string allowed_text(const Field& field) {
    switch (field.type) {
        case Type::Uint:
            if (!field.built.empty()) {
                return spoken(field.built);
            }
            return field.min == field.max
                       ? std::to_string(field.min)
                       : std::to_string(field.min) + ".." + std::to_string(field.max);
        case Type::Text:
            if (!field.built.empty() || !field.one_of.empty()) {
                return spoken(field.built.empty() ? field.one_of : field.built);
            }
            return "at most " + std::to_string(field.max) + " bytes";
        case Type::TextMap:
        case Type::List:
            return (field.is_required ? "1.." : "0..") + std::to_string(field.max) + " entries";
        case Type::Bool:
        case Type::Object:
            break;
    }
    return std::string(type_name(field.type));
}

Refusal unknown_field(std::span<const Field> table, const std::string& where,
                      std::string_view name) {
    Refusal out{400, "unknown_field", where, "unknown field " + where, {}};
    for (const Field& field : table) {
        if (lower(field.name) == lower(name)) {
            out.message += "; the spelling is " + std::string(field.name);
            out.allowed = field.name;
        }
    }
    return out;
}

std::optional<Refusal> check_type(const Field& field, const Json& value, const std::string& where) {
    if (is_of_type(field.type, value)) {
        return std::nullopt;
    }
    std::string have = "not " + std::string(value.kind());
    if (field.type == Type::TextMap && value.object() != nullptr) {
        have = "and one of its members is no text";
    }
    return Refusal{422, "wrong_type", where,
                   where + " must be " + std::string(type_name(field.type)) + ", " + have,
                   std::string(type_name(field.type))};
}

std::optional<Refusal> check_value(const Field& field, const Json& value,
                                   const std::string& where) {
    if (auto refusal = check_type(field, value, where)) {
        return refusal;
    }
    if (field.standing == Standing::NotYet && is_default(field, value)) {
        return std::nullopt;
    }
    return check_range(field, value, where);
}

std::optional<Refusal> check_supported(const Field& field, const Json& value,
                                       const std::string& where) {
    // A table of members says for each of them whether it is there.
    if (!field.members.empty()) {
        return check_supported(field.members, *value.object(), where + ".");
    }
    if (field.standing == Standing::NotYet && !is_default(field, value)) {
        return not_supported_yet(where, field, value);
    }
    if (!field.built.empty()) {
        const std::string word = value.text() != nullptr ? *value.text() : value.dump();
        if (!is_among(field.built, word)) {
            return not_supported_yet(where, field, value);
        }
    }
    return std::nullopt;
}

std::optional<Refusal> check_supported(std::span<const Field> table, const Json::Object& object,
                                       const std::string& prefix) {
    for (const auto& [name, value] : object) {
        const Field* field = find_field(table, name);
        if (field == nullptr) {
            continue;
        }
        if (auto refusal = check_supported(*field, value, prefix + name)) {
            return refusal;
        }
    }
    return std::nullopt;
}

Json default_of(const Field& field) {
    if (auto value = Json::parse(field.fallback); value.ok()) {
        return std::move(*value);
    }
    switch (field.type) {
        case Type::Bool:
            return false;
        case Type::Uint:
            return 0;
        case Type::Text:
            return "";
        case Type::TextMap:
        case Type::Object:
            return Json::Object{};
        case Type::List:
            return Json::Array{};
    }
    return {};
}

bool is_same_value(const Field& field, const Json* a, const Json* b) {
    const Json fallback = default_of(field);
    const auto plain = [&](const Json* value) {
        return value == nullptr || is_default(field, *value) ? &fallback : value;
    };
    return *plain(a) == *plain(b);
}

std::optional<Refusal> check_object(std::span<const Field> table, Json::Object& object,
                                    const std::string& prefix) {
    for (auto it = object.begin(); it != object.end();) {
        const Field* field = find_field(table, it->first);
        if (field == nullptr) {
            return unknown_field(table, prefix + it->first, it->first);
        }
        if (field->standing == Standing::ReadOnly) {
            it = object.erase(it);
            continue;
        }
        if (auto refusal = check_value(*field, it->second, prefix + it->first)) {
            return refusal;
        }
        ++it;
    }
    for (const Field& field : table) {
        if (field.is_required && object.find(field.name) == object.end()) {
            const std::string where = prefix + std::string(field.name);
            return Refusal{field.code.empty() ? 422 : field.status,
                           std::string(field.code.empty() ? "required" : field.code), where,
                           where + " is required", allowed_text(field)};
        }
    }
    return std::nullopt;
}

}  // namespace sluice::rules
