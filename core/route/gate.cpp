#include "core/route/gate.hpp"

#include <algorithm>

namespace sluice::route {

Ticket Ticket::take(const OccupancyPtr& from, std::uint32_t limit) noexcept {
    Ticket out;
    std::uint32_t held = from->held_.load(std::memory_order_relaxed);
    while (limit == 0 || held < limit) {
        if (from->held_.compare_exchange_weak(held, held + 1, std::memory_order_relaxed)) {
            out.from_ = from;
            break;
        }
    }
    return out;
}

std::vector<net::Prefix> read_sources(const std::vector<std::string>& allowed) {
    std::vector<net::Prefix> out;
    for (const std::string& text : allowed) {
        if (const auto prefix = net::Prefix::parse(text)) {
            out.push_back(*prefix);
        }
    }
    return out;
}

bool is_in(const std::vector<net::Prefix>& sources, std::string_view peer) noexcept {
    const auto address = net::Address::parse(peer);
    return address.ok() && std::any_of(sources.begin(), sources.end(),
                                       [&](const net::Prefix& p) { return p.contains(*address); });
}

Refusal source_refusal() {
    return {
        403, "source_not_allowed", "this address may not use the service", {}, "permission_error"};
}

std::optional<Refusal> Gate::enter(const rules::Rule& rule, std::string_view peer,
                                   Ticket& place) const {
    if (is_restricted && !is_in(sources, peer)) {
        return source_refusal();
    }
    if (!rule.is_admin_up) {
        return Refusal{503, "rule_disabled", "the rule is switched off", {}, "api_error"};
    }
    place = Ticket::take(occupancy, rule.connection_limit);
    if (!place.is_held()) {
        return Refusal{
            503,
            "connection_limit",
            "the rule takes " + std::to_string(rule.connection_limit) + " requests at a time",
            {},
            "api_error"};
    }
    return std::nullopt;
}

}  // namespace sluice::route
