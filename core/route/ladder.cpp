#include "core/route/ladder.hpp"

namespace sluice::route {
namespace {

void note(Receipt& receipt, Tier tier, const Verdict& verdict) {
    if (!verdict.reason.empty()) {
        receipt.misses.push_back({tier, verdict.reason});
    }
}

}  // namespace

Decision Ladder::choose(const Question& q, Receipt& receipt) {
    rows_.fill(q);
    Decision out;
    Verdict verdict;
    if (q.service.kv) {
        out.tier = Tier::KvExact;
        verdict = kv_exact_.consider(q, rows_, receipt);
        note(receipt, out.tier, verdict);
    }
    if (!verdict.index) {
        out.tier = Tier::Selector;
        verdict = selector_.consider(q, rows_);
        note(receipt, out.tier, verdict);
    }
    rows_.record(q, receipt);
    if (!verdict.index) {
        return {};
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
