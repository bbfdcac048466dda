// allowedSources[]: who may connect.
#include "core/rules/field.hpp"
#include "core/rules/key.hpp"
#include "core/rules/parse_parts.hpp"

namespace sluice::rules {

std::optional<Refusal> take_sources(Json::Array& sources, Draft& out) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const std::string where = "allowedSources[" + std::to_string(i) + "]";
        Json::Object* object = sources[i].object();
        if (object == nullptr) {
            return Refusal{422, "wrong_type", where,
                           where + " must be an object, not " + std::string(sources[i].kind()),
                           R"(an object, e.g. {"prefix":"10.0.0.0/8"})"};
        }
        if (auto refusal = check_object(source_fields(), *object, where + ".")) {
            return refusal;
        }
        const std::string& given = *object->at("prefix").text();
        auto prefix = canonical_prefix(given);
        if (!prefix) {
            return Refusal{400, "malformed_source", where + ".prefix",
                           where + ".prefix must be an IPv4 or IPv6 network",
                           "address/length, e.g. 10.0.0.0/8"};
        }
        out.rule.allowed_sources.push_back(std::move(*prefix));
    }
    return std::nullopt;
}

}  // namespace sluice::rules
