#include "tests/sim/support/validate.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace sluice::sim {
namespace {

bool integer_text(std::string_view s) {
    std::int64_t n = 0;
    const auto r = std::from_chars(s.data(), s.data() + s.size(), n);
    return !s.empty() && r.ec == std::errc() && r.ptr == s.data() + s.size();
}

bool number_text(std::string_view s) {
    double d = 0;
    const auto r = std::from_chars(s.data(), s.data() + s.size(), d);
    return !s.empty() && r.ec == std::errc() && r.ptr == s.data() + s.size();
}

struct Complaint {
    std::string_view type;
    std::string_view message;
};

std::optional<Complaint> complaint(const json::Value& v, Kind kind) {
    const std::string* text = v.text();
    switch (kind) {
        case Kind::Integer:
            if (v.integer() != nullptr || v.boolean() != nullptr ||
                (text != nullptr && integer_text(*text))) {
                return std::nullopt;
            }
            if (text != nullptr) {
                return Complaint{"int_parsing",
                                 "Input should be a valid integer, unable to parse string as an "
                                 "integer"};
            }
            if (const double* d = v.real(); d != nullptr) {
                const bool is_whole = *d == static_cast<double>(static_cast<std::int64_t>(*d));
                return is_whole ? std::nullopt
                                : std::optional(Complaint{"int_from_float",
                                                          "Input should be a valid integer, got a "
                                                          "number with a fractional part"});
            }
            return Complaint{"int_type", "Input should be a valid integer"};
        case Kind::Number:
            if (v.integer() != nullptr || v.real() != nullptr || v.boolean() != nullptr ||
                (text != nullptr && number_text(*text))) {
                return std::nullopt;
            }
            return text != nullptr
                       ? Complaint{"float_parsing",
                                   "Input should be a valid number, unable to parse string as a "
                                   "number"}
                       : Complaint{"float_type", "Input should be a valid number"};
        case Kind::Boolean:
            if (v.boolean() != nullptr || v.integer() != nullptr) {
                return std::nullopt;
            }
            return text != nullptr ? Complaint{"bool_parsing",
                                               "Input should be a valid boolean, unable to "
                                               "interpret input"}
                                   : Complaint{"bool_type", "Input should be a valid boolean"};
        case Kind::Text:
            return text != nullptr
                       ? std::nullopt
                       : std::optional(Complaint{"string_type", "Input should be a valid string"});
        case Kind::TextOrList:
            return text != nullptr || v.array() != nullptr
                       ? std::nullopt
                       : std::optional(Complaint{"string_type", "Input should be a valid string"});
        case Kind::List:
            return v.array() != nullptr
                       ? std::nullopt
                       : std::optional(Complaint{"list_type", "Input should be a valid list"});
        case Kind::Object:
            return v.object() != nullptr ? std::nullopt
                                         : std::optional(Complaint{
                                               "dict_type", "Input should be a valid dictionary"});
        case Kind::Any:
            break;
    }
    return std::nullopt;
}

}  // namespace

std::vector<FieldComplaint> complaints(const json::Value& body, const std::vector<Field>& fields) {
    std::vector<FieldComplaint> out;
    for (const Field& f : fields) {
        const json::Value* v = body.find(f.name);
        if (v == nullptr) {
            if (f.is_required) {
                out.push_back({"missing", std::string(f.name), "Field required", &body});
            }
        } else if (!v->is_null() || !f.is_nullable) {
            if (const auto c = complaint(*v, f.kind)) {
                out.push_back(
                    {std::string(c->type), std::string(f.name), std::string(c->message), v});
            }
        }
    }
    return out;
}

std::vector<FieldComplaint> unknown_fields(const json::Value& body,
                                           const std::vector<Field>& fields) {
    std::vector<FieldComplaint> out;
    if (const json::Object* members = body.object()) {
        for (const json::Member& m : *members) {
            const bool is_known = std::any_of(fields.begin(), fields.end(),
                                              [&m](const Field& f) { return f.name == m.key; });
            if (!is_known) {
                out.push_back(
                    {"extra_forbidden", m.key, "Extra inputs are not permitted", &m.value});
            }
        }
    }
    return out;
}

}  // namespace sluice::sim
