#include "core/route/kv_exact_tier.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/metrics.hpp"
#include "core/route/models.hpp"

namespace sluice::route {
namespace {

// Endpoints of one rule normally agree on the block size; a pool more mixed than this is a mistake
// of configuration, and the rest of it counts as cold.
constexpr std::uint32_t kMaxBlockSizes = 8;

// So many look-ups without a hit are worth a warning.
constexpr std::uint64_t kZeroHits = 50;

constexpr std::string_view kNothingMatches = "no_worker";

void count_miss(std::string_view reason) {
    metrics::registry()
        .counter("loxilb_pd_kv_tier15_miss_reason_total",
                 "KV-exact attempts that fell through, by reason.",
                 {{"reason", std::string(reason)}})
        .add();
}

// Why the prompt cannot be looked up; empty when it can.
std::string_view guard(const Question& q) {
    if (q.facts.api != Api::Chat && q.facts.api != Api::Completions) {
        return "api";
    }
    if (q.prompt == nullptr) {
        return "text_empty";  // no JSON body
    }
    if (!q.prompt->miss.empty()) {
        return q.prompt->miss;
    }
    return q.prompt->tokens.empty() ? "text_empty" : std::string_view();
}

// Blocks of the prompt an engine could answer from cache.
std::size_t usable_blocks(const Question& q, std::uint32_t block_tokens) {
    const std::size_t tokens = q.prompt->tokens.size();
    const std::size_t tail = q.prompt->is_cut ? 0 : q.service.traits.uncached_tail_tokens;
    return tokens <= tail ? 0 : (tokens - tail) / block_tokens;
}

bool is_better(const Rows& rows, std::size_t a, std::size_t b) {
    if (rows.reach(a).blocks != rows.reach(b).blocks) {
        return rows.reach(a).blocks > rows.reach(b).blocks;
    }
    if (rows.inflight(a) != rows.inflight(b)) {
        return rows.inflight(a) < rows.inflight(b);
    }
    if (rows.reach(a).doubtful != rows.reach(b).doubtful) {
        return rows.reach(a).doubtful > rows.reach(b).doubtful;
    }
    return a < b;
}

std::optional<std::size_t> least_loaded(const Rows& rows) {
    std::optional<std::size_t> least;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows.is_free(i) && (!least || rows.inflight(i) < rows.inflight(*least))) {
            least = i;
        }
    }
    return least;
}

// Every n-th hit goes to the least loaded endpoint that holds next to nothing, so that a new one
// fills up although others always match better.
std::optional<std::size_t> cold_seed(const Question& q, const Rows& rows, std::size_t winner) {
    const rules::KvSpec& spec = q.service.rule->kv;
    if (spec.cold_seed_every == 0) {
        return std::nullopt;
    }
    if (q.service.kv->next_hit() % spec.cold_seed_every != 0) {
        return std::nullopt;
    }
    const std::vector<kv::HolderStats> stats = q.service.kv->index().stats();
    std::optional<std::size_t> cold;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        std::uint64_t held = 0;
        for (const kv::HolderStats& holder : stats) {
            held += holder.endpoint == rows.candidate(i).endpoint ? holder.gpu_blocks : 0;
        }
        if (i != winner && rows.is_free(i) && rows.excluded(i).empty() &&
            held < spec.cold_seed_min_blocks &&
            (!cold || rows.inflight(i) < rows.inflight(*cold))) {
            cold = i;
        }
    }
    return cold;
}

}  // namespace

void KvExactTier::match_blocks(const Question& q, Rows& rows) {
    const Service& service = q.service;
    std::string parent;
    const std::string_view lora = lora_of(*service.pool, q.served_model, parent);
    const kv::Key root = kv::root_key(lora, q.facts.salt);
    const std::span tokens(q.prompt->tokens);
    std::uint32_t sizes = 0;
    for (std::size_t i = 0; i < rows.size() && sizes < kMaxBlockSizes; ++i) {
        const std::uint32_t block = service.block_tokens(i);
        if (rows.reach(i).block_tokens != 0 || block == 0) {
            continue;
        }
        service.kv->index().match_prompt(root, tokens.first(usable_blocks(q, block) * block), block,
                                         matches_);
        for (std::size_t j = i; j < rows.size(); ++j) {
            if (service.block_tokens(j) != block) {
                continue;
            }
            Reach& reach = rows.reach(j);
            reach.block_tokens = block;
            if (const kv::Match* match = matches_.best_rank(rows.candidate(j).endpoint)) {
                reach.blocks = match->blocks;
                reach.doubtful = match->doubtful_blocks;
                reach.rank = match->rank;
                rows.candidate(j).prefix_blocks = match->blocks;
                rows.candidate(j).gpu_blocks = match->gpu_blocks;
            }
        }
        ++sizes;
    }
}

// Blocks of an endpoint whose signal cannot be trusted are worth nothing, to selectors neither.
KvExactTier::Standing KvExactTier::survey(const Question& q, Rows& rows) {
    Standing out;
    out.when_none = kNothingMatches;
    std::string_view distrusted;  // why none of the rows can be trusted, if so
    bool is_any_trusted = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        Reach& reach = rows.reach(i);
        if (rows.is_aside(i)) {
            continue;
        }
        const KvMember& member = *q.service.kv_members[i];
        if (reach.block_tokens != 0) {
            const std::size_t usable = usable_blocks(q, reach.block_tokens);
            out.query_blocks = std::max(out.query_blocks, static_cast<std::uint32_t>(usable));
        }
        if (reach.doubtful > 0) {
            out.when_none = "unproven";
        }
        if (const std::string_view distrust = member.distrust(); !distrust.empty()) {
            out.when_none = reach.blocks > 0 ? distrust : out.when_none;
            distrusted = distrust;
            reach.blocks = 0;
            rows.candidate(i).prefix_blocks = 0;
            rows.candidate(i).gpu_blocks = 0;
        } else {
            is_any_trusted = true;
            if (reach.blocks > 0 && member.is_warming(q.service.rule->kv.warmup_sec, q.now_us)) {
                reach.blocks = 0;
                out.when_none = "warmup";
            }
        }
        if (!rows.is_free(i)) {
            out.when_none = reach.blocks > 0 ? "excluded" : out.when_none;
            continue;
        }
        out.num_free += 1;
        out.total_load += rows.inflight(i);
        if (reach.blocks > out.best) {
            out.best = reach.blocks;
            out.best_tokens = reach.block_tokens;
        }
    }
    if (!is_any_trusted && !distrusted.empty()) {
        out.when_none = distrusted;
    }
    return out;
}

// Many prompts in a row whose blocks nobody holds, although blocks are held: the tokens are
// probably not the engine's.
void KvExactTier::watch(const Question& q, bool is_hit) {
    if (q.is_dry_run || q.service.kv->note_lookup(is_hit) < kZeroHits) {
        return;
    }
    (void)q.service.kv->note_lookup(true);  // another count begins
    std::uint64_t held = 0;
    for (const kv::HolderStats& holder : q.service.kv->index().stats()) {
        held += holder.gpu_blocks;
    }
    if (held == 0) {
        return;
    }
    q.service.kv_counters.zero_hits->add();
    log::warn(
        "prompts match no block although blocks are held: are the tokenizer and the chat "
        "template the engine's?",
        {{"rule", q.service.rule->id}, {"blocks", held}, {"lookups", kZeroHits}});
}

void KvExactTier::look(const Question& q, Rows& rows) {
    if (guard(q).empty()) {
        match_blocks(q, rows);
        (void)survey(q, rows);  // takes away what cannot be trusted
    }
}

Verdict KvExactTier::consider(const Question& q, Rows& rows, Receipt& receipt) {
    const KvCounters& counters = q.service.kv_counters;
    const auto pass = [&](std::string_view reason) -> Verdict {
        if (!q.is_dry_run) {
            count_miss(reason);
            counters.fallthrough->add();
        }
        return {std::nullopt, reason};
    };
    if (const std::string_view reason = guard(q); !reason.empty()) {
        return pass(reason);
    }
    match_blocks(q, rows);
    const Standing standing = survey(q, rows);
    receipt.prompt_tokens = static_cast<std::uint32_t>(q.prompt->tokens.size());
    receipt.blocks = standing.query_blocks;
    if (standing.query_blocks == 0) {
        return pass("shallow");
    }
    // Blocks that are there but cannot be trusted or reached say nothing about our tokens.
    if (standing.best != 0 || standing.when_none == kNothingMatches) {
        watch(q, standing.best != 0);
    }
    if (standing.best == 0) {
        return pass(standing.when_none);
    }
    const rules::KvSpec& spec = q.service.rule->kv;
    const std::uint32_t least =
        std::min(standing.query_blocks,
                 (spec.min_match_tokens + standing.best_tokens - 1) / standing.best_tokens);
    if (standing.best < least) {
        return pass("shallow");
    }

    // load + 1 <= ceil(factor / 100 * (sum + 1) / n); every capacity counts as one.
    const std::uint64_t parts = 100 * standing.num_free;
    const std::uint64_t bound =
        (std::uint64_t{spec.mean_load_factor} * (standing.total_load + 1) + parts - 1) / parts;
    const bool is_bounded = spec.lb_mode == rules::KvSpec::LbMode::Hard;
    std::optional<std::size_t> winner;
    std::optional<std::size_t> passed_over;  // would have won but for the bound
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!rows.is_free(i)) {
            continue;
        }
        const bool is_over = is_bounded && rows.inflight(i) + 1 > bound;
        if (is_over) {
            rows.exclude(i, "over_bound");
        }
        std::optional<std::size_t>& place = is_over ? passed_over : winner;
        if (!place || is_better(rows, i, *place)) {
            place = i;
        }
    }
    if (!winner) {
        winner = least_loaded(rows);  // everybody is over
    }
    const bool is_spill =
        passed_over && rows.reach(*passed_over).blocks > rows.reach(*winner).blocks;
    if (q.is_dry_run) {
        return {winner, is_spill ? "over_bound" : ""};
    }
    if (is_spill) {
        counters.spills[*passed_over]->add();
        return {winner, "over_bound"};
    }
    if (const auto cold = cold_seed(q, rows, *winner)) {
        counters.cold_seeds[*cold]->add();
        return {cold, "cold_seed"};
    }
    counters.hits[*winner]->add();
    return {winner, {}};
}

}  // namespace sluice::route
