#include "core/route/session_tier.hpp"

namespace sluice::route {
namespace {

// Full is not out: the conversation comes back to it.
bool is_full(const Rows& rows, std::uint64_t endpoint) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows.candidate(i).endpoint == endpoint && rows.is_only_full(i)) {
            return true;
        }
    }
    return false;
}

}  // namespace

Verdict SessionTier::consider(const Question& q, const Rows& rows) const {
    if (q.session == 0) {
        return {std::nullopt, "no_session"};
    }
    Sessions& sessions = q.service.pd->sessions;
    const std::uint64_t ttl_us = std::uint64_t{q.service.rule->pd.session_ttl_sec} * 1'000'000U;
    const auto pair = sessions.find(q.session, q.now_us, ttl_us);
    if (!pair) {
        return {std::nullopt, "new_session"};
    }
    const std::uint64_t endpoint = q.role == rules::kRolePrefill ? pair->prefill : pair->decode;
    if (const auto row = rows.free_row_of(endpoint)) {
        return {row, {}};
    }
    if (is_full(rows, endpoint)) {
        return {std::nullopt, "full"};
    }
    if (!q.is_dry_run && endpoint != 0) {
        sessions.forget(q.session);
    }
    return {std::nullopt, "excluded"};
}

}  // namespace sluice::route
