#include "core/route/load_tier.hpp"

namespace sluice::route {
namespace {

bool is_fresh(const sluice_candidate& row) noexcept {
    return row.load_age_us <= LoadTier::kStaleUs;
}

double mean_waiting(const Rows& rows) {
    double sum = 0;
    std::size_t known = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows.is_free(i) && is_fresh(rows.candidate(i))) {
            sum += rows.candidate(i).waiting;
            ++known;
        }
    }
    return known == 0 ? 0 : sum / static_cast<double>(known);
}

}  // namespace

Verdict LoadTier::consider(const Question& q, const Rows& rows) const {
    const double mean = mean_waiting(rows);
    const auto load = [&](std::size_t i) {
        const sluice_candidate& row = rows.candidate(i);
        return row.inflight + (is_fresh(row) ? static_cast<double>(row.waiting) : mean);
    };
    double least = -1;
    std::uint32_t equals = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!rows.is_free(i)) {
            continue;
        }
        const double here = load(i);
        equals = least < 0 || here < least ? 1 : equals + (here == least ? 1U : 0U);
        least = least < 0 || here < least ? here : least;
    }
    if (equals == 0) {
        return {std::nullopt, "none_eligible"};
    }
    auto& turn = q.service.pd->turns.at(q.role);
    const std::uint32_t now = q.is_dry_run || equals == 1
                                  ? turn.load(std::memory_order_relaxed)
                                  : turn.fetch_add(1, std::memory_order_relaxed);
    std::uint32_t left = now % equals;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows.is_free(i) && load(i) == least && left-- == 0) {
            return {i, {}};
        }
    }
    return {std::nullopt, "none_eligible"};
}

}  // namespace sluice::route
