// The rules between fields, one function a topic; each fills its part of the Rule.
//
// Threads: any.
// Errors:  a Refusal; the fields themselves are already checked.
#pragma once
#include <span>

#include "core/rules/effective.hpp"
#include "core/rules/field.hpp"
#include "core/rules/parse.hpp"

namespace sluice::rules {

struct Draft {
    Rule rule;
    std::vector<Warning> warnings;
};

std::optional<Refusal> take_key(const Effective& in, Draft& out);
std::optional<Refusal> take_probe(Effective& in, Draft& out);
std::optional<Refusal> take_limits(Effective& in, Draft& out);
// Prefill/decode: roles and what needs them.
std::optional<Refusal> check_pool(const Effective& in, const Draft& out);
// Values of P/D, and what of them is without effect.
std::optional<Refusal> take_pd(const Effective& in, Draft& out);
std::optional<Refusal> take_breaker(Effective& in, Draft& out);
// Admission, keys and sessions.
std::optional<Refusal> check_guard(Effective& in);
// After check_supported(): which plugins serve the rule.
std::optional<Refusal> take_plugins(Effective& in, const Loaded& loaded, Draft& out);
std::optional<Refusal> take_kv(Effective& in, const Defaults& defaults, Draft& out);
// kvRepublish and kvEventsFrom.
std::optional<Refusal> check_event_addresses(const Effective& in, Draft& out);
// The engine the body names, or the default one.
std::string engine_named(const Effective& in);
// Checks every endpoint, drops read-only members, sorts `endpoints` by identity and fills
// rule.endpoints in that order.
std::optional<Refusal> take_endpoints(Json::Array& endpoints, Draft& out);
// allowedSources: every prefix checked, rule.allowed_sources in compared form.
std::optional<Refusal> take_sources(Json::Array& sources, Draft& out);
// Fields that are accepted and do nothing here.
void warn_about_stored(std::span<const Field> table, const Json::Object& given,
                       const std::string& prefix, std::vector<Warning>& out);

}  // namespace sluice::rules
