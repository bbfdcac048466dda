// sel 2: each row in turn, as often as its weight says, evenly spread.
//
// prepare() lays out one period of smooth weighted round robin per leg kind over the rows whose
// roles serve it; a pick is one counter step and one load. When the row whose turn it is may not be
// chosen, its turn is spread over the others by weight with a second counter and a low-discrepancy
// step, so no neighbour inherits a dead row's whole share.
//
// Threads: prepare control; pick request threads, several at once.
// Errors:  no row may be chosen: SLUICE_PASS.
// Limits:  a period is at most kMaxPeriod turns; larger weights are scaled down, none below 1.
//          Weight 0 gets no turn unless every row has weight 0, then all count as 1.
#pragma once
#include <array>
#include <numeric>
#include <vector>

#include "plugins/selectors/cursor.hpp"

namespace sluice::selectors {

// One period of smooth weighted round robin: row numbers, each `weights[row]` times.
inline std::vector<std::uint32_t> smooth_period(const std::vector<std::uint64_t>& weights) {
    const auto total = static_cast<std::int64_t>(
        std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
    std::vector<std::int64_t> credit(weights.size(), 0);
    std::vector<std::uint32_t> out;
    out.reserve(static_cast<std::size_t>(total));
    for (std::int64_t turn = 0; turn < total; ++turn) {
        std::size_t best = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            credit[i] += static_cast<std::int64_t>(weights[i]);
            best = credit[i] > credit[best] ? i : best;
        }
        credit[best] -= total;
        out.push_back(static_cast<std::uint32_t>(best));
    }
    return out;
}

class Weighted final : public Selector<Weighted> {
public:
    static constexpr std::uint64_t kMaxPeriod = 4096;
    struct View {
        std::array<std::vector<std::uint32_t>, SLUICE_LEG_DECODE + 1> period;
    };

    Weighted(Host, std::string_view) {}

    std::unique_ptr<View> prepare(Rows<sluice_candidate> rows) {
        auto out = std::make_unique<View>();
        out->period[SLUICE_LEG_SINGLE] = lay_out(rows, SLUICE_ROLE_WHOLE | SLUICE_ROLE_DECODE);
        out->period[SLUICE_LEG_PREFILL] = lay_out(rows, SLUICE_ROLE_PREFILL);
        out->period[SLUICE_LEG_DECODE] = lay_out(rows, SLUICE_ROLE_DECODE);
        return out;
    }

    sluice_status pick(const sluice_choice& c, Rows<sluice_candidate> rows, std::uint32_t* index) {
        const auto* laid_out = reinterpret_cast<const View*>(c.view);
        const std::uint64_t turn = cursor_.turn(c);
        if (laid_out != nullptr && c.leg < laid_out->period.size() &&
            !laid_out->period[c.leg].empty()) {
            const auto& period = laid_out->period[c.leg];
            const std::uint32_t row = period[turn % period.size()];
            if (row < rows.size() && rows[row].excluded == 0) {
                *index = row;
                return SLUICE_OK;
            }
        }
        return spread(c, rows, index);
    }

private:
    static std::vector<std::uint32_t> lay_out(Rows<sluice_candidate> rows, std::uint32_t roles) {
        std::vector<std::uint64_t> weights;
        std::uint64_t divisor = 0;
        bool any_weight = false;
        for (const sluice_candidate& row : rows) {
            any_weight = any_weight || (serves(row, roles) && row.weight > 0);
        }
        for (const sluice_candidate& row : rows) {
            weights.push_back(!serves(row, roles) ? 0 : any_weight ? row.weight : 1);
            divisor = std::gcd(divisor, weights.back());
        }
        if (divisor == 0) {
            return {};
        }
        std::uint64_t total = 0;
        for (std::uint64_t& w : weights) {
            total += w /= divisor;
        }
        if (total > kMaxPeriod) {
            for (std::uint64_t& w : weights) {
                w = w == 0 ? 0 : std::max<std::uint64_t>(1, w * kMaxPeriod / total);
            }
        }
        return smooth_period(weights);
    }
    // A row that names no role serves every leg.
    static bool serves(const sluice_candidate& row, std::uint32_t roles) noexcept {
        return row.roles == 0 || (row.roles & roles) != 0;
    }

    sluice_status spread(const sluice_choice& c, Rows<sluice_candidate> rows,
                         std::uint32_t* index) {
        std::uint64_t total = 0;
        std::uint32_t eligible = 0;
        for (const sluice_candidate& row : rows) {
            total += row.excluded == 0 ? row.weight : 0;
            eligible += row.excluded == 0 ? 1U : 0U;
        }
        if (eligible == 0) {
            return SLUICE_PASS;
        }
        const bool even = total == 0;
        total = even ? eligible : total;
        // Multiples of the golden ratio, modulo one, as 32-bit fractions: evenly spread at any
        // length.
        const std::uint64_t fraction = (spill_.turn(c) * 0x9E3779B9U) & 0xFFFFFFFFU;
        std::uint64_t at = (fraction * total) >> 32U;
        for (std::uint32_t i = 0; i < rows.size(); ++i) {
            if (rows[i].excluded != 0) {
                continue;
            }
            const std::uint64_t width = even ? 1 : rows[i].weight;
            if (at < width) {
                *index = i;
                return SLUICE_OK;
            }
            at -= width;
        }
        return SLUICE_PASS;
    }

    Cursor cursor_;
    Cursor spill_;
};

}  // namespace sluice::selectors
