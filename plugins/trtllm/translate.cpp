#include "plugins/trtllm/translate.hpp"

#include <algorithm>

#include "plugins/trtllm/attest.hpp"

namespace sluice::trtllm {

namespace {

// 0: a level this adapter does not know.
std::uint32_t tier_of(std::uint64_t level) noexcept {
    constexpr std::uint32_t kTiers[] = {SLUICE_TIER_GPU, SLUICE_TIER_HOST, SLUICE_TIER_DISK};
    return level < std::size(kTiers) ? kTiers[level] : 0;
}

sluice_kv_event event_of(std::uint32_t type, std::uint32_t tier) noexcept {
    sluice_kv_event e{};
    e.size = sizeof e;
    e.type = type;
    e.tier = tier;
    return e;
}

std::optional<LeftOut> reason_of_traits(std::uint32_t traits) noexcept {
    struct Named {
        Trait trait;
        LeftOut why;
    };
    for (const Named& n :
         {Named{kSalted, LeftOut::Salted}, Named{kMultimodal, LeftOut::Multimodal},
          Named{kExtraId, LeftOut::ExtraId}, Named{kDigestToken, LeftOut::DigestToken},
          Named{kLora, LeftOut::Adapter}}) {
        if ((traits & n.trait) != 0) {
            return n.why;
        }
    }
    return std::nullopt;
}

}  // namespace

std::string_view name_of(LeftOut why) noexcept {
    constexpr std::string_view kNames[] = {
        "foreign_hash_algo", "other_window", "other_layer_group", "block_size_mismatch",
        "partial",           "salted",       "multimodal",        "extra_id",
        "digest_token",      "adapter",      "foreign_hash",      "unknown_level"};
    return kNames[static_cast<std::size_t>(why)];
}

Translated Translator::translate(const Drained& drained) {
    Translated out;
    for (std::size_t at = 0; at < drained.events.size(); ++at) {
        event(at, drained.events[at], out);
    }
    return out;
}

void Translator::event(std::size_t at, const Event& e, Translated& out) {
    if (e.rank >= kMaxRanks) {
        ++out.other_ranks;
        return;
    }
    Rank& rank = ranks_[e.rank];
    out.highest_rank = std::max(out.highest_rank, e.rank);
    const std::uint64_t expected = rank.sequence.next().value_or(0);
    const auto begin = [&](Step::Reset reset) {
        Step step;
        step.reset = reset;
        step.rank = e.rank;
        step.expected = expected;
        step.got = e.id;
        out.steps.push_back(std::move(step));
    };
    switch (rank.sequence.accept(e.id)) {
        case Arrival::LateJoin:
            out.late_joins.push_back({e.rank, e.id});
            break;
        case Arrival::Gap:
            begin(Step::Reset::Gap);
            break;
        case Arrival::Regression:
            rank.pool.forget();
            begin(Step::Reset::Regression);
            break;
        case Arrival::First:
        case Arrival::InOrder:
            break;
    }
    if (out.steps.empty() || out.steps.back().rank != e.rank) {
        begin(Step::Reset::None);
    }
    out.steps.back().last_id = e.id;
    if (e.kind == Event::Kind::Unknown) {
        ++out.unknown_type;
        return;
    }
    const PoolVerdict pool = rank.pool.see(e);
    if (pool == PoolVerdict::OtherWindow || pool == PoolVerdict::OtherGroup) {
        for (std::size_t i = 0; i < e.blocks.size(); ++i) {
            out.not_indexed.push_back({e.rank, at, i,
                                       pool == PoolVerdict::OtherWindow
                                           ? LeftOut::OtherWindow
                                           : LeftOut::OtherLayerGroup});
        }
        return;
    }
    if (pool == PoolVerdict::Switched) {
        begin(Step::Reset::OtherPool);
        out.steps.back().last_id = e.id;
    }
    Step& step = out.steps.back();
    switch (e.kind) {
        case Event::Kind::Created: {
            sluice_kv_event cleared = event_of(SLUICE_KV_CLEARED, SLUICE_ANY);
            cleared.group = SLUICE_ANY;
            step.events.push_back(cleared);
            break;
        }
        case Event::Kind::Stored:
            stored(at, e, rank, step, out);
            break;
        case Event::Kind::Removed:
            removed(e, rank, step);
            break;
        case Event::Kind::Updated:
            updated(e, rank, step);
            break;
        case Event::Kind::Unknown:
            break;
    }
}

void Translator::stored(std::size_t at, const Event& e, Rank& rank, Step& step, Translated& out) {
    if (e.blocks.empty()) {
        return;
    }
    const bool is_foreign =
        e.algo != options_.algo || e.digests.empty() == (options_.algo == HashAlgo::V2Sha256);
    if (is_foreign) {
        out.foreign_algo = e.algo_text.empty() ? "another form" : e.algo_text;
    }
    BlockCheck check(e);
    std::optional<std::size_t> run;  // index of the event that the next block may join
    for (std::size_t i = 0; i < e.blocks.size(); ++i) {
        const Block& block = e.blocks[i];
        auto why = is_foreign ? std::optional(LeftOut::ForeignHashAlgo) : reason(e, i, out);
        const bool fits = is_foreign || !options_.checks_hashes || check.is_base_text(i);
        if (!why && !fits) {
            why = LeftOut::ForeignHash;
        }
        if (why) {
            out.not_indexed.push_back({e.rank, at, i, *why});
            run.reset();
            continue;
        }
        const std::uint32_t tier = tier_of(block.level);
        if (run && step.events[*run].tier != tier) {
            run.reset();
        }
        if (!run) {
            sluice_kv_event next = event_of(SLUICE_KV_STORED, tier);
            next.block_tokens = block.num_tokens;
            next.hashes = e.hashes.data() + i;
            next.tokens = e.tokens.data() + block.first_token;
            if (i > 0 || e.parent) {
                next.flags = SLUICE_KV_HAS_PARENT;
                next.parent = i > 0 ? e.hashes[i - 1] : *e.parent;
            }
            step.events.push_back(next);
            run = step.events.size() - 1;
        }
        ++step.events[*run].num_hashes;
        step.events[*run].num_tokens += block.num_tokens;
        ++out.indexed;
        rank.has_host = rank.has_host || tier == SLUICE_TIER_HOST;
        rank.has_disk = rank.has_disk || tier == SLUICE_TIER_DISK;
    }
}

std::optional<LeftOut> Translator::reason(const Event& e, std::size_t block,
                                          Translated& out) const {
    const Block& b = e.blocks[block];
    const bool is_last = block + 1 == e.blocks.size();
    if (b.num_tokens > options_.block_tokens ||
        (b.num_tokens < options_.block_tokens && !is_last)) {
        out.is_oversize = out.is_oversize || e.blocks.size() == 1;
        return LeftOut::BlockSizeMismatch;
    }
    if (b.num_tokens < options_.block_tokens) {
        return LeftOut::Partial;
    }
    if (const auto why = reason_of_traits(b.traits)) {
        return why;
    }
    return tier_of(b.level) == 0 ? std::optional(LeftOut::UnknownLevel) : std::nullopt;
}

// The event does not say where the block was: it is gone from wherever this rank keeps blocks.
void Translator::removed(const Event& e, const Rank& rank, Step& step) {
    if (e.hashes.empty()) {
        return;
    }
    sluice_kv_event gone = event_of(SLUICE_KV_REMOVED, SLUICE_TIER_GPU);
    gone.hashes = e.hashes.data();
    gone.num_hashes = static_cast<std::uint32_t>(e.hashes.size());
    step.events.push_back(gone);
    if (rank.has_host) {
        gone.tier = SLUICE_TIER_HOST;
        step.events.push_back(gone);
    }
    if (rank.has_disk) {
        gone.tier = SLUICE_TIER_DISK;
        step.events.push_back(gone);
    }
}

void Translator::updated(const Event& e, Rank& rank, Step& step) {
    if (!e.level || e.level->from == e.level->to) {
        return;  // a priority changes nothing of where a block is
    }
    sluice_kv_event moved = event_of(SLUICE_KV_STORED, tier_of(e.level->to));
    moved.hashes = e.hashes.data();
    moved.num_hashes = 1;
    if (moved.tier != 0) {
        step.events.push_back(moved);
        rank.has_host = rank.has_host || moved.tier == SLUICE_TIER_HOST;
        rank.has_disk = rank.has_disk || moved.tier == SLUICE_TIER_DISK;
    }
    moved.type = SLUICE_KV_REMOVED;
    moved.tier = tier_of(e.level->from);
    if (moved.tier != 0) {
        step.events.push_back(moved);
    }
}

std::optional<std::uint32_t> Translator::shown_block_tokens(const Drained& drained) {
    for (const Event& e : drained.events) {
        if (e.blocks.size() > 1) {
            return e.blocks.front().num_tokens;
        }
    }
    return std::nullopt;
}

void Translator::lost() noexcept {
    for (auto& [number, rank] : ranks_) {
        rank.sequence.continue_at(std::nullopt);
    }
}

std::optional<std::uint64_t> Translator::next(std::uint32_t rank) const {
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? std::nullopt : found->second.sequence.next();
}

}  // namespace sluice::trtllm
