#include "core/admin/body.hpp"

#include <algorithm>
#include <cmath>

namespace sluice::admin {

using rules::Json;
using rules::Refusal;

BodyReader::BodyReader(std::string_view text) {
    auto parsed = Json::parse(text);
    if (!parsed) {
        fail({400, "malformed_json", "", "the body is not JSON: " + parsed.error().what, ""});
        return;
    }
    json_ = std::move(*parsed);
    if (json_.object() == nullptr) {
        fail({422, "wrong_type", "", "the body must be an object, is " + std::string(json_.kind()),
              "an object"});
    }
}

const Json* BodyReader::find(std::string_view name) const {
    const Json::Object* object = json_.object();
    if (object == nullptr) {
        return nullptr;
    }
    const auto it = object->find(name);
    return it == object->end() ? nullptr : &it->second;
}

const Json* BodyReader::member(std::string_view name, bool is_required, std::string_view allowed) {
    const Json* found = find(name);
    if (found == nullptr && is_required) {
        fail({400, "required", std::string(name), std::string(name) + " is required",
              std::string(allowed)});
    }
    return found;
}

bool BodyReader::boolean(std::string_view name, bool is_required) {
    const Json* have = member(name, is_required, "true or false");
    if (have == nullptr) {
        return false;
    }
    if (have->boolean() == nullptr) {
        wrong_type(name, *have, "true or false");
        return false;
    }
    return *have->boolean();
}

std::uint64_t BodyReader::number(std::string_view name, bool is_required, std::uint64_t most) {
    const std::string allowed = "0.." + std::to_string(most);
    const Json* have = member(name, is_required, allowed);
    if (have == nullptr) {
        return 0;
    }
    if (have->negative_integer() != nullptr) {
        out_of_range(name, allowed);
        return 0;
    }
    if (have->unsigned_integer() == nullptr) {
        wrong_type(name, *have, allowed);
        return 0;
    }
    if (*have->unsigned_integer() > most) {
        out_of_range(name, allowed);
        return 0;
    }
    return *have->unsigned_integer();
}

double BodyReader::real(std::string_view name, bool is_required, double most) {
    const std::string allowed = "0.." + std::to_string(static_cast<std::uint64_t>(most));
    const Json* have = member(name, is_required, allowed);
    if (have == nullptr) {
        return 0;
    }
    double value = -1;
    if (have->unsigned_integer() != nullptr) {
        value = static_cast<double>(*have->unsigned_integer());
    } else if (have->real() != nullptr) {
        value = *have->real();
    } else if (have->negative_integer() == nullptr) {
        wrong_type(name, *have, allowed);
        return 0;
    }
    if (!(value >= 0 && value <= most)) {
        out_of_range(name, allowed);
        return 0;
    }
    return value;
}

std::string BodyReader::text(std::string_view name, bool is_required, std::size_t max_bytes) {
    const std::string allowed = "text of at most " + std::to_string(max_bytes) + " bytes";
    const Json* have = member(name, is_required, allowed);
    if (have == nullptr) {
        return {};
    }
    if (have->text() == nullptr) {
        wrong_type(name, *have, allowed);
        return {};
    }
    if (have->text()->size() > max_bytes) {
        out_of_range(name, allowed);
        return {};
    }
    return *have->text();
}

std::vector<std::string> BodyReader::texts(std::string_view name, bool is_required,
                                           std::size_t at_most) {
    const std::string allowed = "a list of at most " + std::to_string(at_most) + " texts";
    const Json* have = member(name, is_required, allowed);
    if (have == nullptr) {
        return {};
    }
    std::vector<std::string> out;
    if (have->array() == nullptr) {
        wrong_type(name, *have, allowed);
        return out;
    }
    if (have->array()->size() > at_most) {
        out_of_range(name, allowed);
        return out;
    }
    for (std::size_t i = 0; i < have->array()->size(); ++i) {
        const Json& one = (*have->array())[i];
        if (one.text() == nullptr) {
            wrong_type(std::string(name) + "[" + std::to_string(i) + "]", one, "text");
            return {};
        }
        out.push_back(*one.text());
    }
    return out;
}

std::optional<Refusal> BodyReader::refusal(std::initializer_list<std::string_view> known) {
    if (!refusal_) {
        std::string names;
        for (const std::string_view one : known) {
            names += (names.empty() ? "" : ", ") + std::string(one);
        }
        for (const auto& [name, value] : *json_.object()) {
            if (std::find(known.begin(), known.end(), name) == known.end()) {
                fail({400, "unknown_field", name, "there is no field " + name, names});
                break;
            }
        }
    }
    return refusal_;
}

void BodyReader::wrong_type(std::string_view name, const Json& have, std::string_view allowed) {
    fail({422, "wrong_type", std::string(name),
          std::string(name) + " must not be " + std::string(have.kind()), std::string(allowed)});
}

void BodyReader::out_of_range(std::string_view name, std::string allowed) {
    fail({422, "out_of_range", std::string(name), std::string(name) + " is out of range",
          std::move(allowed)});
}

void BodyReader::fail(Refusal refusal) {
    if (!refusal_) {
        refusal_ = std::move(refusal);
    }
}

}  // namespace sluice::admin
