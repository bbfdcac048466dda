#include "core/route/ladder.hpp"

#include <sluice/sdk/fleet.h>

#include <algorithm>

#include "core/base/metrics.hpp"
#include "core/route/models.hpp"

namespace sluice::route {
namespace {

constexpr std::string_view kMissName = "loxilb_pd_kv_tier15_miss_reason_total";
constexpr std::string_view kMissHelp = "KV-exact attempts that fell through, by reason.";

std::uint32_t exclusion_bit(fleet::Excluded why) noexcept {
    switch (why) {
        case fleet::Excluded::No:
            return 0;
        case fleet::Excluded::Down:
            return SLUICE_EX_DOWN;
        case fleet::Excluded::Draining:
            return SLUICE_EX_DRAIN;
        case fleet::Excluded::Standby:
            return SLUICE_EX_STANDBY;
        case fleet::Excluded::Model:
            return SLUICE_EX_MODEL;
    }
    return SLUICE_EX_DOWN;
}

void count_miss(std::string_view reason) {
    metrics::registry().counter(kMissName, kMissHelp, {{"reason", std::string(reason)}}).add();
}

bool contains(std::span<const std::size_t> list, std::size_t i) noexcept {
    return std::find(list.begin(), list.end(), i) != list.end();
}

}  // namespace

void Ladder::fill_rows(const Question& q) {
    const fleet::Pool& pool = *q.service.pool;
    rows_.resize(pool.size());
    excluded_.assign(pool.size(), {});
    reach_.assign(pool.size(), {});
    bool is_model_missing = false;
    bool is_any_free = false;
    for (std::size_t i = 0; i < pool.size(); ++i) {
        const fleet::Member& member = pool[i];
        const fleet::Load load = member.endpoint->load();
        fleet::Excluded why = pool.excluded(i, q.served_model);
        if (why == fleet::Excluded::No && contains(q.tried, i)) {
            why = fleet::Excluded::Down;
        }
        sluice_candidate& row = rows_[i];
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
        is_model_missing = is_model_missing || why == fleet::Excluded::Model;
        is_any_free = is_any_free || why == fleet::Excluded::No;
    }
    // Nobody is known to serve the model: the engines have the last word (a name may be newer than
    // the last look), and their 404 is the client's answer.
    if (!is_any_free && is_model_missing) {
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (rows_[i].excluded == SLUICE_EX_MODEL) {
                rows_[i].excluded = 0;
                excluded_[i] = {};
                is_any_free = true;
            }
        }
    }
    // An endpoint that refused a connection a moment ago is passed over while another is left.
    const auto is_refusing = [&](std::size_t i) {
        return is_free(i) && pool[i].endpoint->is_refusing(q.now_us);
    };
    std::size_t free = 0;
    std::size_t refusing = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        free += is_free(i) ? 1U : 0U;
        refusing += is_refusing(i) ? 1U : 0U;
    }
    if (refusing > 0 && refusing < free) {
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (is_refusing(i)) {
                rows_[i].excluded |= SLUICE_EX_BREAKER;
                excluded_[i] = "down";
            }
        }
    }
}

// Fills reach_ for every row, excluded ones too: the receipt shows what was passed over.
void Ladder::match_blocks(const Question& q) {
    const Service& service = q.service;
    std::string parent;
    const std::string_view lora = lora_of(*service.pool, q.served_model, parent);
    const kv::Key root = kv::root_key(lora, q.facts.salt);
    const std::vector<std::uint32_t>& tokens = q.prompt->tokens;
    // Endpoints of one rule normally agree on the block size; each other size costs a walk.
    std::uint32_t walked = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (reach_[i].block_tokens != 0) {
            continue;
        }
        const std::uint32_t block = service.block_tokens(i);
        if (block == 0) {
            continue;
        }
        const std::size_t tail = q.prompt->is_cut ? 0 : service.traits.uncached_tail_tokens;
        const std::size_t usable = tokens.size() <= tail ? 0 : (tokens.size() - tail) / block;
        service.kv->index().match_prompt(root, std::span(tokens).first(usable * block), block,
                                         matches_);
        for (std::size_t j = i; j < rows_.size(); ++j) {
            if (service.block_tokens(j) != block) {
                continue;
            }
            reach_[j].block_tokens = block;
            if (const kv::Match* match = matches_.best_rank(rows_[j].endpoint)) {
                reach_[j].blocks = match->blocks;
                reach_[j].doubtful = match->doubtful_blocks;
                reach_[j].rank = match->rank;
                rows_[j].prefix_blocks = match->blocks;
                rows_[j].gpu_blocks = match->gpu_blocks;
            }
        }
        walked += 1;
        if (walked == 8) {
            break;  // a pool this mixed is a mistake of configuration; the rest counts as cold
        }
    }
}

std::string_view Ladder::kv_guard(const Question& q) const {
    if (q.facts.api != Api::Chat && q.facts.api != Api::Completions) {
        return "api";
    }
    if (q.prompt == nullptr) {
        return "text_empty";  // no JSON body
    }
    if (!q.prompt->miss.empty()) {
        return q.prompt->miss;
    }
    if (q.prompt->tokens.empty()) {
        return "text_empty";
    }
    return {};
}

std::optional<std::size_t> Ladder::kv_exact(const Question& q, Receipt& receipt) {
    const Service& service = q.service;
    const auto pass = [&](std::string_view reason) -> std::optional<std::size_t> {
        receipt.misses.push_back({Tier::KvExact, reason});
        if (!q.is_dry_run) {
            count_miss(reason);
            service.kv_counters.fallthrough->add();
        }
        return std::nullopt;
    };
    if (const std::string_view reason = kv_guard(q); !reason.empty()) {
        return pass(reason);
    }
    receipt.prompt_tokens = static_cast<std::uint32_t>(q.prompt->tokens.size());
    match_blocks(q);

    // What each endpoint's blocks are worth: none while its signal cannot be trusted.
    const rules::KvSpec& spec = service.rule->kv;
    std::uint32_t best = 0;
    std::uint32_t best_excluded = 0;
    std::uint32_t best_block = 0;
    bool is_warming = false;
    bool is_refused = false;
    std::uint64_t total_load = 0;
    std::uint64_t num_free = 0;
    std::uint32_t query_blocks = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        Reach& reach = reach_[i];
        const KvMember& member = *service.kv_members[i];
        if (reach.block_tokens != 0) {
            query_blocks =
                std::max(query_blocks, static_cast<std::uint32_t>(kv::usable_blocks(
                                           q.prompt->tokens.size(), reach.block_tokens)));
        }
        if (member.state() == SLUICE_KV_REFUSED) {
            is_refused = is_refused || reach.blocks > 0;
            reach.blocks = 0;
        } else if (member.is_warming(spec.warmup_sec, q.now_us)) {
            is_warming = is_warming || reach.blocks > 0;
            reach.blocks = 0;
        }
        if (!is_free(i)) {
            best_excluded = std::max(best_excluded, reach.blocks);
            continue;
        }
        num_free += 1;
        total_load += rows_[i].inflight;
        if (reach.blocks > best) {
            best = reach.blocks;
            best_block = reach.block_tokens;
        }
    }
    receipt.blocks = query_blocks;
    if (query_blocks == 0) {
        return pass("shallow");
    }
    if (best == 0) {
        if (best_excluded > 0) {
            return pass("excluded");
        }
        return pass(is_warming ? "warmup" : is_refused ? "mismatch" : "no_worker");
    }
    const std::uint32_t least =
        std::min(query_blocks, (spec.min_match_tokens + best_block - 1) / std::max(1U, best_block));
    if (best < least) {
        return pass("shallow");
    }

    // load_i + 1 <= ceil(factor / 100 * (sum + 1) / n); every capacity counts as one.
    const std::uint64_t bound =
        num_free == 0
            ? 0
            : (std::uint64_t{spec.mean_load_factor} * (total_load + 1) + 100 * num_free - 1) /
                  (100 * num_free);
    const bool is_bounded = spec.lb_mode == rules::KvSpec::LbMode::Hard;
    std::optional<std::size_t> winner;
    std::optional<std::size_t> passed_over;  // would have won but for the bound
    const auto is_better = [&](std::size_t a, std::size_t b) {
        if (reach_[a].blocks != reach_[b].blocks) {
            return reach_[a].blocks > reach_[b].blocks;
        }
        if (rows_[a].inflight != rows_[b].inflight) {
            return rows_[a].inflight < rows_[b].inflight;
        }
        if (reach_[a].doubtful != reach_[b].doubtful) {
            return reach_[a].doubtful > reach_[b].doubtful;
        }
        return a < b;
    };
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (!is_free(i)) {
            continue;
        }
        if (is_bounded && rows_[i].inflight + 1 > bound) {
            excluded_[i] = "over_bound";
            if (!passed_over || is_better(i, *passed_over)) {
                passed_over = i;
            }
        } else if (!winner || is_better(i, *winner)) {
            winner = i;
        }
    }
    if (!winner) {
        // Everybody is over: the least loaded, as if there were no blocks.
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (is_free(i) && (!winner || rows_[i].inflight < rows_[*winner].inflight)) {
                winner = i;
            }
        }
    }
    if (!winner) {
        return pass("excluded");
    }
    const bool is_spill = passed_over && reach_[*passed_over].blocks > reach_[*winner].blocks;
    if (is_spill) {
        receipt.misses.push_back({Tier::KvExact, "over_bound"});
    }
    if (q.is_dry_run) {
        return winner;
    }
    if (is_spill) {
        service.kv_counters.spills[*passed_over]->add();
        return winner;
    }
    if (const auto cold = cold_seed(q)) {
        service.kv_counters.cold_seeds[*cold]->add();
        receipt.misses.push_back({Tier::KvExact, "cold_seed"});
        return cold;
    }
    service.kv_counters.hits[*winner]->add();
    return winner;
}

// Every n-th hit goes to the least loaded endpoint that holds next to nothing, so that a new one
// fills up although others always match better.
std::optional<std::size_t> Ladder::cold_seed(const Question& q) const {
    const rules::KvSpec& spec = q.service.rule->kv;
    if (spec.cold_seed_every == 0) {
        return std::nullopt;
    }
    const std::uint64_t hit = q.service.kv_hits.fetch_add(1, std::memory_order_relaxed) + 1;
    if (hit % spec.cold_seed_every != 0) {
        return std::nullopt;
    }
    const std::vector<kv::HolderStats> stats = q.service.kv->index().stats();
    std::optional<std::size_t> cold;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        std::uint64_t held = 0;
        for (const kv::HolderStats& holder : stats) {
            held += holder.endpoint == rows_[i].endpoint ? holder.gpu_blocks : 0;
        }
        if (is_free(i) && excluded_[i].empty() && held < spec.cold_seed_min_blocks &&
            (!cold || rows_[i].inflight < rows_[*cold].inflight)) {
            cold = i;
        }
    }
    return cold;
}

std::optional<std::size_t> Ladder::select(const Question& q, Receipt& receipt) {
    sluice_request request{};
    request.size = sizeof request;
    request.flags = static_cast<std::uint32_t>(q.facts.is_stream ? SLUICE_REQ_STREAM : 0) |
                    static_cast<std::uint32_t>(q.is_dry_run ? SLUICE_REQ_DRY_RUN : 0);
    request.request_id = {q.request_id.data(), q.request_id.size()};
    request.path = {q.facts.path.data(), q.facts.path.size()};
    request.model = {q.served_model.data(), q.served_model.size()};
    request.client = {q.client.data(), q.client.size()};
    request.attempt = static_cast<std::uint32_t>(q.tried.size());
    const Selector::Choice choice = q.service.selector->choose(request, rows_);
    if (!choice.is_found || choice.index >= rows_.size()) {
        receipt.misses.push_back({Tier::Selector, "none_eligible"});
        return std::nullopt;
    }
    return choice.index;
}

void Ladder::record(const Question& q, Receipt& receipt) const {
    receipt.candidates.clear();
    for (std::size_t i = 0; i < std::min(rows_.size(), Receipt::kMaxCandidates); ++i) {
        CandidateRecord c;
        c.endpoint = q.service.names->endpoints[i];
        c.excluded = excluded_[i];
        c.matched_blocks = reach_[i].blocks;
        c.inflight = rows_[i].inflight;
        c.running = rows_[i].running;
        c.waiting = rows_[i].waiting;
        receipt.candidates.push_back(c);
    }
}

Decision Ladder::choose(const Question& q, Receipt& receipt) {
    fill_rows(q);
    Decision out;
    std::optional<std::size_t> index;
    if (q.service.kv) {
        index = kv_exact(q, receipt);
        out.tier = Tier::KvExact;
    }
    if (!index) {
        index = select(q, receipt);
        out.tier = Tier::Selector;
    }
    record(q, receipt);
    if (!index) {
        return {};
    }
    out.is_found = true;
    out.index = *index;
    out.matched_blocks = reach_[*index].blocks;
    out.rank = reach_[*index].rank;
    out.block_tokens = reach_[*index].block_tokens;
    return out;
}

}  // namespace sluice::route
