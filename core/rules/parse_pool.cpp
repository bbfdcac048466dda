// Prefill/decode: the roles of the endpoints and the fields that need them; the breaker, whose
// numbers depend on it.
#include <algorithm>

#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

bool has_role(const Draft& draft, std::uint32_t role) {
    return std::any_of(draft.rule.endpoints.begin(), draft.rule.endpoints.end(),
                       [role](const EndpointSpec& endpoint) { return endpoint.role == role; });
}

}  // namespace

std::optional<Refusal> check_pool(const Effective& in, const Draft& out) {
    const bool is_pd = in.boolean("pd_disagg_mode");
    if (is_pd && !(has_role(out, 1) && has_role(out, 2))) {
        return Refusal{400, "pd_roles_required", "endpoints",
                       "pd_disagg_mode needs at least one prefill and one decode endpoint",
                       "one endpoint or more with ep_role 1, and with ep_role 2"};
    }
    if (!is_pd && in.boolean("pd_cache_aware_mode")) {
        return Refusal{400, "pd_cache_aware_needs_pd", "pd_cache_aware_mode",
                       "pd-cache-aware requires pd_disagg_mode=true", "false"};
    }
    const std::uint32_t bootstrap = in.u32("pdBootstrapPort");
    if (bootstrap != 0 && !(is_pd && engine_named(in) == "sglang")) {
        return Refusal{400, "pd_bootstrap_port_unused", "pdBootstrapPort",
                       "pdBootstrapPort is " + std::to_string(bootstrap) +
                           ": it requires pd_disagg_mode and kvEngineType sglang",
                       "absent or 0"};
    }
    return std::nullopt;
}

std::optional<Refusal> take_breaker(Effective& in, Draft& out) {
    const bool is_pd = in.boolean("pd_disagg_mode");
    const bool is_given = in.was_given("breaker.failures") || in.was_given("breaker.open_ms") ||
                          in.was_given("breaker.half_open_trials") ||
                          in.was_given("breaker.origin_5xx");
    if (is_given && !is_pd && !in.boolean("cb_enable")) {
        return Refusal{400, "breaker_needs_cb_enable", "breaker",
                       "breaker is given, but cb_enable is false and the rule is not a P/D rule",
                       "absent, or cb_enable true"};
    }
    if (is_pd && !in.was_given("breaker.failures")) {
        in.set("breaker.failures", Json(std::uint64_t{3}));
    }
    BreakerSpec& breaker = out.rule.breaker;
    breaker.is_on = is_pd || in.boolean("cb_enable");
    breaker.failures = in.u32("breaker.failures");
    breaker.open_ms = in.u64("breaker.open_ms");
    breaker.half_open_trials = in.u32("breaker.half_open_trials");
    breaker.origin_5xx = in.u32("breaker.origin_5xx");
    return std::nullopt;
}

}  // namespace sluice::rules
