#include "core/route/prefix_tier.hpp"

#include <algorithm>

namespace sluice::route {
namespace {

// By how many requests the busiest endpoint that may be chosen is ahead of the idlest.
std::uint32_t imbalance(const Rows& rows) {
    std::uint32_t least = UINT32_MAX;
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows.is_free(i)) {
            least = std::min(least, rows.inflight(i));
            most = std::max(most, rows.inflight(i));
        }
    }
    return most - std::min(least, most);
}

}  // namespace

Verdict PrefixTier::consider(const Question& q, const Rows& rows) const {
    const rules::PdSpec& spec = q.service.rule->pd;
    if (q.chain->size() == 0) {
        return {std::nullopt, "text_empty"};
    }
    if (imbalance(rows) > spec.balance_threshold) {
        return {std::nullopt, "imbalance"};
    }
    const auto match = q.service.pd->prefixes.find(*q.chain, [&rows](std::uint64_t endpoint) {
        return rows.free_row_of(endpoint).has_value();
    });
    if (!match) {
        return {std::nullopt, "no_prefix"};
    }
    if (match->length * 100 < q.chain->size() * std::size_t{spec.cache_threshold}) {
        return {std::nullopt, "shallow"};
    }
    return {rows.free_row_of(match->endpoint), {}};
}

}  // namespace sluice::route
