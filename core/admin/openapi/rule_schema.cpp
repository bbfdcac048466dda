#include "core/admin/openapi/rule_schema.hpp"

#include "core/admin/openapi/words.hpp"
#include "core/rules/field.hpp"

namespace sluice::admin::openapi {
namespace {

using rules::Field;
using rules::Json;
using rules::Standing;
using rules::Type;

// What a rule has besides the operator's fields; `where` is the table's place.
struct LiveField {
    std::string_view where;
    std::string_view name;
    std::string_view schema;
};

constexpr LiveField kLive[] = {
    {"", "id", R"({"type":"string"})"},
    {"", "number", R"({"type":"integer","minimum":1})"},
    {"", "generation", R"({"type":"integer","minimum":1})"},
    {"", "effective", R"({"type":"object"})"},
    {"", "warnings", R"({"type":"array","items":{"$ref":"#/components/schemas/Warning"}})"},
    {"", "offload_state", R"({"type":"string"})"},
    {"", "hw_pkts", R"({"type":"integer"})"},
    {"", "hw_bytes", R"({"type":"integer"})"},
    {"serviceArguments", "number", R"({"type":"integer"})"},
    {"serviceArguments", "generation", R"({"type":"integer"})"},
    {"serviceArguments", "effective", R"({"type":"object"})"},
    {"serviceArguments", "warnings", R"({"type":"array"})"},
    {"serviceArguments", "fc_effective", R"({"type":"object"})"},
    {"endpoints[]", "id", R"({"type":"integer","minimum":1})"},
    {"endpoints[]", "ep_idx", R"({"type":"integer","minimum":0})"},
    {"endpoints[]", "state",
     R"({"type":"string","enum":["active","inactive","draining","disabled"]})"},
    {"endpoints[]", "inActiveEP", R"({"type":"boolean"})"},
    {"endpoints[]", "reason", R"({"type":"string"})"},
    {"endpoints[]", "counter", R"({"type":"string"})"},
    {"endpoints[]", "inflight", R"({"type":"integer","minimum":0})"},
    {"endpoints[]", "queued", R"({"type":"integer","minimum":0})"},
    {"endpoints[]", "breaker", R"({"type":"string","enum":["closed","open","half_open"]})"},
    {"endpoints[]", "kv", R"({"type":"object","required":["blocks","signal","attestation"],
        "properties":{"blocks":{"type":"integer","minimum":0},
        "signal":{"type":"string","enum":["ok","warming","quiet","doubtful","dead","refused",
            "stolen","off"]},
        "attestation":{"type":"string"},"reason":{"type":"string"},
        "detail":{"type":"string"},"advice":{"type":"string"},
        "last_event_age_ms":{"type":"integer","minimum":0}}})"},
};

Json::Object live_schema(std::string_view where, std::string_view name) {
    for (const LiveField& row : kLive) {
        if (row.where == where && row.name == name) {
            return parsed_schema(row.schema);
        }
    }
    return {};
}

std::string_view standing_text(Standing standing) {
    switch (standing) {
        case Standing::Built:
            return "built";
        case Standing::Stored:
            return "stored";
        case Standing::NotYet:
            return "not_supported_yet";
        case Standing::ReadOnly:
            break;
    }
    return "read_only";
}

Json::Object object_of(std::span<const Field> table, std::string_view where, bool is_patch);

Json parsed_value(std::string_view text) {
    auto value = Json::parse(text);
    return value.ok() ? std::move(*value) : Json();
}

// The words of a list "a|b|" as JSON: numbers for a number.
Json::Array values_of(Type type, std::string_view list) {
    Json::Array out;
    for (const std::string_view word : split(list, '|')) {
        out.push_back(type == Type::Text ? Json(word) : parsed_value(word));
    }
    return out;
}

void add_range(Json::Object& out, const Field& field, std::string_view low, std::string_view high) {
    if (field.min > 0) {
        out.emplace(low, field.min);
    }
    if (field.max > 0) {
        out.emplace(high, field.max);
    }
}

// What the elements of a list are; only the lists of the body have elements of their own.
Json::Object items_of(std::string_view where, std::string_view name) {
    if (where.empty() && name == "endpoints") {
        return reference("Endpoint");
    }
    if (where.empty() && name == "allowedSources") {
        return reference("AllowedSource");
    }
    return {};
}

void add_type(Json::Object& out, const Field& field, std::string_view where, bool is_patch) {
    switch (field.type) {
        case Type::Bool:
            out.emplace("type", "boolean");
            return;
        case Type::Uint:
            out.emplace("type", "integer");
            out.emplace("minimum", field.min);
            out.emplace("maximum", field.max);
            return;
        case Type::Text:
            out.emplace("type", "string");
            if (!field.one_of.empty()) {
                out.emplace("enum", values_of(Type::Text, field.one_of));
                return;
            }
            // In bytes of UTF-8, so a text of as many characters may still be too long.
            add_range(out, field, "minLength", "maxLength");
            return;
        case Type::TextMap:
            out.emplace("type", "object");
            out.emplace("additionalProperties",
                        Json::Object{{"type", "string"}, {"maxLength", 4096}});
            add_range(out, field, "minProperties", "maxProperties");
            return;
        case Type::Object:
            if (where.empty() && field.name == "serviceArguments") {
                out = object_of(rules::service_fields(), field.name, is_patch);
            } else if (!field.members.empty()) {
                out = object_of(field.members, field.name, is_patch);
            } else {
                out.emplace("type", "object");
            }
            return;
        case Type::List:
            out.emplace("type", "array");
            out.emplace("items", items_of(where, field.name));
            add_range(out, field, "minItems", "maxItems");
            if (field.is_required) {
                out.insert_or_assign("minItems", 1);
            }
            return;
    }
}

void add_notes(Json::Object& out, const Field& field) {
    out.emplace("x-sluice-standing", standing_text(field.standing));
    if (!field.about.empty()) {
        out.insert_or_assign("description", field.about);
    }
    if (!field.fallback.empty()) {
        out.emplace("default", parsed_value(field.fallback));
    }
    if (!field.built.empty()) {
        out.emplace("x-sluice-built", values_of(field.type, field.built));
    }
    if (!field.env.empty()) {
        out.emplace("x-sluice-env", field.env);
    }
    if (field.is_immutable) {
        out.emplace("x-sluice-immutable", true);
    }
}

Json::Object schema_of(const Field& field, std::string_view where, bool is_patch) {
    Json::Object out;
    if (field.standing == Standing::ReadOnly) {
        out = live_schema(where, field.name);
        out.emplace("readOnly", true);
    } else {
        add_type(out, field, where, is_patch);
    }
    add_notes(out, field);
    return out;
}

// In a merge patch nothing is required, and null takes a field away.
Json nullable(Json::Object schema) {
    Json::Object note;
    for (const char* name : {"description", "readOnly", "x-sluice-standing"}) {
        if (const auto it = schema.find(name); it != schema.end()) {
            note.insert(*it);
        }
    }
    note.emplace("anyOf", Json::Array{std::move(schema), Json::Object{{"type", "null"}}});
    return note;
}

Json::Object object_of(std::span<const Field> table, std::string_view where, bool is_patch) {
    Json::Object properties;
    Json::Array required;
    for (const Field& field : table) {
        Json::Object schema = schema_of(field, where, is_patch);
        if (field.is_required && !is_patch) {
            required.emplace_back(field.name);
        }
        properties.emplace(field.name, is_patch && field.standing != Standing::ReadOnly
                                           ? nullable(std::move(schema))
                                           : Json(std::move(schema)));
    }
    Json::Object out{
        {"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
    if (!required.empty()) {
        out.emplace("required", std::move(required));
    }
    return out;
}

Json::Object rule_of(std::string_view about, bool is_entry) {
    Json::Object out = object_of(rules::body_fields(), "", false);
    auto& properties = *out.at("properties").object();
    properties.insert_or_assign("serviceArguments", reference("ServiceArguments"));
    out.emplace("description", about);
    if (is_entry) {
        out.insert_or_assign("required", words("id number generation serviceArguments endpoints "
                                               "secondaryIPs secondaryVIPs allowedSources "
                                               "effective warnings"));
    }
    return out;
}

void list_fields(std::span<const Field> table, std::string_view where, Json::Array& out) {
    for (const Field& field : table) {
        Json::Object row = schema_of(field, where, false);
        row.erase("properties");
        row.erase("required");
        row.erase("additionalProperties");
        row.erase("items");
        row.emplace("name", field.name);
        row.emplace("in", where);
        row.emplace("required", field.is_required);
        if (field.standing != Standing::ReadOnly) {
            row.emplace("allowed", rules::allowed_text(field));
        }
        out.emplace_back(std::move(row));
        if (!field.members.empty()) {
            list_fields(field.members, field.name, out);
        }
    }
}

}  // namespace

Json::Object rule_schemas() {
    Json::Object out;
    out.emplace("ServiceArguments", object_of(rules::service_fields(), "serviceArguments", false));
    out.emplace("Endpoint", object_of(rules::endpoint_fields(), "endpoints[]", false));
    out.emplace("AllowedSource", object_of(rules::source_fields(), "allowedSources[]", false));
    out.emplace("Rule", rule_of("A rule as an operator writes it. A read-back can be sent as it "
                                "is: what the gateway added is dropped.",
                                false));
    out.emplace("RuleEntry", rule_of("A rule as it is read back: what was written, and what the "
                                     "gateway knows of it.",
                                     true));
    Json::Object patch = object_of(rules::body_fields(), "", true);
    patch.emplace("description",
                  "A merge patch (RFC 7386) on a rule: null takes a field away, an object is "
                  "merged, a list is replaced as a whole.");
    out.emplace("RulePatch", std::move(patch));
    out.emplace("RuleList", parsed_schema(R"({"type":"object","required":["lbAttr"],
        "additionalProperties":false,"properties":{"lbAttr":{"type":"array",
        "items":{"$ref":"#/components/schemas/RuleEntry"}}}})"));
    out.emplace("RuleStored", parsed_schema(R"({"type":"object",
        "required":["result","id","number","generation","warnings"],"additionalProperties":false,
        "properties":{"result":{"const":"Success"},"id":{"type":"string"},
        "number":{"type":"integer","minimum":1},"generation":{"type":"integer","minimum":1},
        "warnings":{"type":"array","items":{"$ref":"#/components/schemas/Warning"}}}})"));
    out.emplace("Warning", parsed_schema(R"({"type":"object",
        "description":"Something to look at; the request succeeded.",
        "required":["code","field","message"],"additionalProperties":false,
        "properties":{"code":{"type":"string","pattern":"^[a-z][a-z0-9_]*$"},
        "field":{"type":"string"},"message":{"type":"string"}}})"));
    return out;
}

Json::Array field_list() {
    Json::Array out;
    list_fields(rules::body_fields(), "", out);
    list_fields(rules::service_fields(), "serviceArguments", out);
    list_fields(rules::endpoint_fields(), "endpoints[]", out);
    list_fields(rules::source_fields(), "allowedSources[]", out);
    return out;
}

}  // namespace sluice::admin::openapi
