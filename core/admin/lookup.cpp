#include "core/admin/lookup.hpp"

#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

using Kind = Param::Kind;

constexpr Param kKeyParams[] = {
    {"path_prefix", "The rule's path_prefix."},
    {"path_match_mode", "The rule's path_match_mode.", Kind::Text, 0, 0, "disabled|prefix|exact|"},
    {"model_name", "The rule's model_name. Without it only a rule without one is meant."},
    {"block", "The rule's block.", Kind::Number, 0, 0xFFFFFFFF},
    {"bgp", "Taken for compatibility; has no effect.", Kind::Flag},
};

rules::Refusal malformed(const char* what, const char* allowed) {
    return {400, "malformed_key", what, std::string("malformed ") + what, allowed};
}

}  // namespace

rules::Actor actor_of(const Request& request) {
    return {request.actor, request.address};
}

std::uint64_t number_param(const Request& request, std::string_view name, std::uint64_t fallback) {
    return request.has(name) ? number_of<std::uint64_t>(request.param(name)).value_or(fallback)
                             : fallback;
}

std::span<const Param> key_params() {
    return kKeyParams;
}

std::optional<rules::Refusal> key_of(const Request& request, rules::RuleKey& key) {
    key.ip = request.param("ip");
    key.protocol = request.param("proto");
    key.path_prefix = request.param("path_prefix");
    key.path_mode = request.param("path_match_mode");
    key.model = request.param("model_name");
    key.host = request.param("hosturl");
    if (key.host == "any") {
        key.host.clear();
    }
    const auto port = number_of<std::uint16_t>(request.param("port"));
    if (!port) {
        return malformed("port", "1..65535");
    }
    key.port = *port;
    key.block = static_cast<std::uint32_t>(number_param(request, "block", 0));
    return rules::normalise(key);
}

std::optional<rules::Refusal> find_rule(Context& context, const std::string& wanted,
                                        std::string_view field, rules::RulePtr& out) {
    const auto table = context.book.table();
    if (const auto number = number_of<std::uint32_t>(wanted)) {
        if (const auto at = table->by_number(*number)) {
            out = table->rules()[*at];
            return std::nullopt;
        }
    }
    if (const auto at = table->by_id(wanted)) {
        out = table->rules()[*at];
        return std::nullopt;
    }
    for (const rules::RulePtr& rule : table->rules()) {
        if (!wanted.empty() && rule->name == wanted) {
            if (out != nullptr) {
                return rules::Refusal{400, "ambiguous_name", std::string(field),
                                      "several rules have this name; give the number or the id",
                                      ""};
            }
            out = rule;
        }
    }
    if (out == nullptr) {
        return rules::Refusal{404, "no_rule", std::string(field),
                              "no-rule error: there is no such rule", ""};
    }
    return std::nullopt;
}

const rules::EndpointSpec* find_endpoint(const rules::Rule& rule, const std::string& wanted) {
    for (const rules::EndpointSpec& spec : rule.endpoints) {
        if (spec.name() == wanted || std::to_string(spec.ep_idx) == wanted) {
            return &spec;
        }
    }
    return nullptr;
}

rules::Refusal unreadable_setting(const Error& error) {
    return {500, "storage_failed", "", "what is stored cannot be read: " + error.what, {}};
}

Response no_rule() {
    return refusal_response({404, "no_rule", "", "no-rule error: there is no such rule", ""});
}

}  // namespace sluice::admin
