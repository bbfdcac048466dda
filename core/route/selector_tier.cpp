#include "core/route/selector_tier.hpp"

namespace sluice::route {

Verdict SelectorTier::consider(const Question& q, Rows& rows) const {
    sluice_request request{};
    request.size = sizeof request;
    request.flags = static_cast<std::uint32_t>(q.facts.is_stream ? SLUICE_REQ_STREAM : 0) |
                    static_cast<std::uint32_t>(q.is_dry_run ? SLUICE_REQ_DRY_RUN : 0);
    request.request_id = {q.request_id.data(), q.request_id.size()};
    request.path = {q.facts.path.data(), q.facts.path.size()};
    request.model = {q.served_model.data(), q.served_model.size()};
    request.client = {q.client.data(), q.client.size()};
    request.attempt = static_cast<std::uint32_t>(q.tried.size());
    const Selector::Choice choice = q.service.selector->choose(request, rows.candidates());
    if (!choice.is_found || choice.index >= rows.size()) {
        return {std::nullopt, "none_eligible"};
    }
    return {choice.index, {}};
}

}  // namespace sluice::route
