// What a request names: a rule, an endpoint of it, a number; and who asks.
//
// Threads: any.
#pragma once
#include <charconv>
#include <optional>
#include <string>

#include "core/admin/router.hpp"

namespace sluice::admin {

rules::Actor actor_of(const Request& request);

// The number a route's parameter holds. The router has checked it if it is of Kind::Number.
template <class N>
std::optional<N> number_of(const std::string& text) {
    N value{};
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_one = ec == std::errc() && end == text.data() + text.size() && !text.empty();
    return is_one ? std::optional<N>(value) : std::nullopt;
}
// The parameter's number, `fallback` when it was not given.
std::uint64_t number_param(const Request& request, std::string_view name, std::uint64_t fallback);

// The key that path and query spell: {ip} {port} {proto} [{hosturl}] and kKeyParams.
std::optional<rules::Refusal> key_of(const Request& request, rules::RuleKey& key);
// Further parts of a key, as query parameters.
std::span<const Param> key_params();

// A rule in force by number, id or name; `field` names the parameter in a refusal.
std::optional<rules::Refusal> find_rule(Context& context, const std::string& wanted,
                                        std::string_view field, rules::RulePtr& out);
// By "ip:port" or by its index in the rule; null when the rule has none such.
const rules::EndpointSpec* find_endpoint(const rules::Rule& rule, const std::string& wanted);

// A stored setting that is not what was stored.
rules::Refusal unreadable_setting(const Error& error);

Response no_rule();

}  // namespace sluice::admin
