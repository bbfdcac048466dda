#include "core/route/question.hpp"

#include <sluice/sdk/fleet.h>

#include <algorithm>

namespace sluice::route {
namespace {

std::uint32_t exclusion_bit(fleet::Excluded why) noexcept {
    switch (why) {
        case fleet::Excluded::No:
            return 0;
        case fleet::Excluded::Down:
        case fleet::Excluded::Disabled:
            return SLUICE_EX_DOWN;
        case fleet::Excluded::Draining:
            return SLUICE_EX_DRAIN;
        case fleet::Excluded::Open:
            return SLUICE_EX_BREAKER;
        case fleet::Excluded::Standby:
            return SLUICE_EX_STANDBY;
        case fleet::Excluded::Model:
            return SLUICE_EX_MODEL;
    }
    return SLUICE_EX_DOWN;
}

bool contains(std::span<const std::size_t> list, std::size_t i) noexcept {
    return std::find(list.begin(), list.end(), i) != list.end();
}

}  // namespace

void Rows::fill(const Question& q) {
    const fleet::Pool& pool = *q.service.pool;
    candidates_.resize(pool.size());
    excluded_.assign(pool.size(), {});
    reach_.assign(pool.size(), {});
    for (std::size_t i = 0; i < pool.size(); ++i) {
        const fleet::Member& member = pool[i];
        const fleet::Load load = member.endpoint->load();
        fleet::Excluded why = pool.excluded(i, q.served_model, q.now_us);
        if (why == fleet::Excluded::No && contains(q.tried, i)) {
            why = fleet::Excluded::Down;
        }
        sluice_candidate& row = candidates_[i];
        row = {};
        row.size = sizeof row;
        row.excluded = exclusion_bit(why);
        row.endpoint = member.endpoint->id();
        row.dp_rank = SLUICE_ANY;
        row.roles = SLUICE_ROLE_WHOLE;
        row.weight = member.spec.weight;
        row.inflight = member.endpoint->inflight();
        row.running = load.running;
        row.waiting = load.waiting;
        row.max_running = load.max_running;
        row.kv_used_ratio = load.kv_used_ratio;
        row.total_blocks = load.total_blocks;
        row.load_age_us = load.at_us == 0 ? UINT64_MAX : q.now_us - std::min(q.now_us, load.at_us);
        const std::string& name = member.endpoint->name();
        row.name = {name.data(), name.size()};
        excluded_[i] = fleet::to_string(why);
    }
    admit_unknown_models();
    if (q.service.pool->has_backups()) {
        hold_back_standbys(q);
    }
    pass_over_marked(q);
}

// A backup carries traffic only while every primary is out; one that refused a connection a moment
// ago counts as out.
void Rows::hold_back_standbys(const Question& q) {
    const fleet::Pool& pool = *q.service.pool;
    for (std::size_t i = 0; i < size(); ++i) {
        if (!pool[i].spec.backup && is_free(i) && !pool[i].endpoint->is_passed_over(q.now_us)) {
            for (std::size_t j = 0; j < size(); ++j) {
                if (pool[j].spec.backup && is_free(j)) {
                    candidates_[j].excluded = exclusion_bit(fleet::Excluded::Standby);
                    excluded_[j] = fleet::to_string(fleet::Excluded::Standby);
                }
            }
            return;
        }
    }
}

// Nobody is known to serve the model: the engines have the last word (a name may be newer than the
// last look), and their 404 is the client's answer.
void Rows::admit_unknown_models() {
    for (std::size_t i = 0; i < size(); ++i) {
        if (is_free(i)) {
            return;
        }
    }
    for (std::size_t i = 0; i < size(); ++i) {
        if (candidates_[i].excluded == SLUICE_EX_MODEL) {
            candidates_[i].excluded = 0;
            excluded_[i] = {};
        }
    }
}

// An endpoint with a mark is passed over while another is left.
void Rows::pass_over_marked(const Question& q) {
    const fleet::Pool& pool = *q.service.pool;
    const auto is_marked = [&](std::size_t i) {
        return is_free(i) && pool[i].endpoint->is_passed_over(q.now_us);
    };
    std::size_t free = 0;
    std::size_t marked = 0;
    for (std::size_t i = 0; i < size(); ++i) {
        free += is_free(i) ? 1U : 0U;
        marked += is_marked(i) ? 1U : 0U;
    }
    if (marked == 0 || marked == free) {
        return;
    }
    for (std::size_t i = 0; i < size(); ++i) {
        if (is_marked(i)) {
            candidates_[i].excluded |= SLUICE_EX_BREAKER;
            const bool is_draining = pool[i].endpoint->mark(q.now_us) == fleet::Mark::Draining;
            excluded_[i] = is_draining ? "draining" : "down";
        }
    }
}

void Rows::record(const Question& q, Receipt& receipt) const {
    const std::size_t shown = std::min(size(), Receipt::kMaxCandidates);
    receipt.candidates.clear();
    receipt.candidates.reserve(shown);
    for (std::size_t i = 0; i < shown; ++i) {
        CandidateRecord c;
        c.endpoint = q.service.names->endpoints[i];
        c.excluded = excluded_[i];
        c.matched_blocks = reach_[i].blocks;
        c.inflight = candidates_[i].inflight;
        c.running = candidates_[i].running;
        c.waiting = candidates_[i].waiting;
        receipt.candidates.push_back(c);
    }
}

}  // namespace sluice::route
