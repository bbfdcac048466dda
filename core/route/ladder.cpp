#include "core/route/ladder.hpp"

#include <algorithm>

namespace sluice::route {
namespace {

void note(Receipt& receipt, Tier tier, const Verdict& verdict) {
    if (!verdict.reason.empty()) {
        receipt.misses.push_back({tier, verdict.reason});
    }
}

}  // namespace

bool holds_prompt(const rules::PdSpec& spec, const Decision& decode,
                  std::size_t num_tokens) noexcept {
    if (!spec.is_conditional || decode.matched_blocks == 0 || decode.block_tokens == 0) {
        return false;
    }
    const std::size_t held = std::size_t{decode.matched_blocks} * decode.block_tokens;
    const std::size_t left = num_tokens - std::min(num_tokens, held);
    return left < std::max<std::size_t>(spec.min_prompt_tokens, decode.block_tokens + 1);
}

// The tiers of a P/D rule that remember. An endpoint that takes whole requests only in need has no
// sessions.
Verdict Ladder::consider_affinity(const Question& q, Receipt& receipt, Decision& out) {
    if (q.role == rules::kRoleWhole) {
        return {};
    }
    out.tier = Tier::Session;
    Verdict verdict = session_.consider(q, rows_);
    note(receipt, out.tier, verdict);
    if (!verdict.index && q.chain != nullptr && q.role == rules::kRolePrefill) {
        out.tier = Tier::Prefix;
        verdict = prefix_.consider(q, rows_);
        note(receipt, out.tier, verdict);
    }
    return verdict;
}

std::optional<std::size_t> Ladder::shortest_queue(const Question& q) const {
    std::optional<std::size_t> out;
    std::size_t least = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (!rows_.is_only_full(i)) {
            continue;
        }
        const std::size_t queued = q.service.pd->admission->queued(rows_.candidate(i).endpoint);
        if (!out || queued < least) {
            out = i;
            least = queued;
        }
    }
    return out;
}

Decision Ladder::choose(const Question& q, Receipt& receipt) {
    rows_.fill(q);
    Decision out;
    Verdict verdict;
    if (q.service.pd) {
        verdict = consider_affinity(q, receipt, out);
    }
    const bool is_exact = q.role == kAnyRole || q.role == rules::kRolePrefill;
    if (!verdict.index && q.service.kv && is_exact) {
        out.tier = Tier::KvExact;
        verdict = kv_exact_.consider(q, rows_, receipt);
        note(receipt, out.tier, verdict);
    } else if (q.service.kv && q.prompt != nullptr) {
        kv_exact_.look(q, rows_);
    }
    if (!verdict.index) {
        out.tier = Tier::Selector;
        verdict = q.service.pd ? load_.consider(q, rows_) : selector_.consider(q, rows_);
        note(receipt, out.tier, verdict);
    }
    rows_.record(q, receipt);
    if (!verdict.index) {
        Decision none;
        none.to_wait_for = q.service.pd ? shortest_queue(q) : std::nullopt;
        return none;
    }
    const Reach& reach = rows_.reach(*verdict.index);
    out.is_found = true;
    out.index = *verdict.index;
    out.matched_blocks = reach.blocks;
    out.rank = reach.rank;
    out.block_tokens = reach.block_tokens;
    return out;
}

}  // namespace sluice::route
