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

std::uint32_t roles_of(std::uint32_t ep_role) noexcept {
    return ep_role == rules::kRolePrefill  ? SLUICE_ROLE_PREFILL
           : ep_role == rules::kRoleDecode ? SLUICE_ROLE_DECODE
                                           : SLUICE_ROLE_WHOLE;
}

bool contains(std::span<const std::size_t> list, std::size_t i) noexcept {
    return std::find(list.begin(), list.end(), i) != list.end();
}

LegKind kind_of(std::uint32_t role) noexcept {
    return role == rules::kRolePrefill  ? LegKind::Prefill
           : role == rules::kRoleDecode ? LegKind::Decode
                                        : LegKind::Whole;
}

}  // namespace

bool Rows::is_only_full(std::size_t i) const noexcept {
    return candidates_[i].excluded == SLUICE_EX_FULL;
}

std::optional<std::size_t> Rows::free_row_of(std::uint64_t endpoint) const noexcept {
    for (std::size_t i = 0; i < size(); ++i) {
        if (candidates_[i].endpoint == endpoint && is_free(i)) {
            return i;
        }
    }
    return std::nullopt;
}

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
        row.roles = roles_of(member.spec.role);
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
        if (q.role != kAnyRole && member.spec.role != q.role) {
            row.excluded = SLUICE_EX_FILTERED;
            excluded_[i] = kOtherRole;
        }
    }
    admit_unknown_models();
    if (q.service.pool->has_backups()) {
        hold_back_standbys(q);
    }
    pass_over_marked(q);
    // The limit in force, not that of a rule edited meanwhile: who is turned away by the one and
    // finds room by the other would choose for ever.
    if (q.role == rules::kRolePrefill && q.service.pd &&
        q.service.pd->admission->limits().max_inflight != 0) {
        close_full(q);
    }
}

// After the others: a backup does not step in for an endpoint that is merely full.
void Rows::close_full(const Question& q) {
    for (std::size_t i = 0; i < size(); ++i) {
        if (is_free(i) && q.service.pd->admission->is_full(candidates_[i].endpoint)) {
            candidates_[i].excluded = SLUICE_EX_FULL;
            excluded_[i] = "full";
        }
    }
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
    // Those of the other leg stay.
    const LegKind leg = kind_of(q.role);
    std::erase_if(receipt.candidates, [&](const CandidateRecord& c) { return c.leg == leg; });
    receipt.candidates.reserve(
        std::min(receipt.candidates.size() + size(), Receipt::kMaxCandidates));
    for (std::size_t i = 0; i < size(); ++i) {
        if (is_aside(i)) {
            continue;
        }
        if (receipt.candidates.size() == Receipt::kMaxCandidates) {
            break;
        }
        CandidateRecord c;
        c.leg = leg;
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
