// The scheduling half of Engine: who is computed in the next step, and with which blocks.
#include <algorithm>

#include "core/base/clock.hpp"
#include "tests/sim/vllm/engine.hpp"
#include "tests/sim/vllm/sequence.hpp"

namespace sluice::sim::vllm {

std::vector<Engine::Work> Engine::schedule() {
    std::vector<Work> step;
    std::uint32_t budget = options_.max_batched_tokens;
    // A step that had to preempt takes nobody new.
    if (schedule_running(step, budget)) {
        schedule_waiting(step, budget);
    }
    stats_.running = running_.size();
    stats_.waiting = waiting_.size();
    stats_.cache_usage =
        1.0 - static_cast<double>(pool_.free()) / static_cast<double>(pool_.usable());
    return step;
}

bool Engine::schedule_running(std::vector<Work>& step, std::uint32_t& budget) {
    bool preempted = false;
    for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
        const auto s = running_[i];
        const std::uint32_t tokens = std::min(s->size() - s->computed, budget);
        while (s->is_running && !grow(*s, tokens)) {
            preempt_last();
            preempted = true;
        }
        if (!s->is_running) {
            break;  // it was the last one itself
        }
        budget -= tokens;
        step.push_back({s, tokens});
    }
    return !preempted;
}

void Engine::schedule_waiting(std::vector<Work>& step, std::uint32_t& budget) {
    while (!waiting_.empty() && running_.size() < options_.max_num_seqs && budget > 0) {
        const auto s = waiting_.front();
        std::uint32_t tokens = 0;
        if (!admit(*s, budget, tokens)) {
            return;
        }
        waiting_.pop_front();
        s->is_running = true;
        running_.push_back(s);
        budget -= tokens;
        step.push_back({s, tokens});
    }
}

// Blocks for `tokens` more computed tokens; false when there are not enough.
bool Engine::grow(Sequence& s, std::uint32_t tokens) {
    const std::size_t upto = s.computed + tokens;
    const std::size_t need = (upto + options_.block_size - 1) / options_.block_size;
    if (need > s.blocks.size()) {
        if (need - s.blocks.size() > pool_.free()) {
            return false;
        }
        const auto fresh = pool_.take(need - s.blocks.size());
        s.blocks.insert(s.blocks.end(), fresh.begin(), fresh.end());
    }
    cache_full_blocks(s, static_cast<std::uint32_t>(upto));
    return true;
}

// The leading blocks that are in the cache already. The last token is always computed, so a prompt
// of whole blocks never finds its last one.
std::vector<BlockId> Engine::lookup(Sequence& s) {
    std::vector<BlockId> hits;
    if (!options_.caches_prefixes || s.request.skips_cache) {
        return hits;
    }
    extend_hashes(s);
    const std::size_t most = (s.size() - 1) / options_.block_size;
    while (hits.size() < most) {
        const auto id = pool_.find(s.hashes[hits.size()]);
        if (!id) {
            break;
        }
        hits.push_back(*id);
    }
    return hits;
}

bool Engine::admit(Sequence& s, std::uint32_t budget, std::uint32_t& tokens) {
    const auto hits = lookup(s);
    const auto cached = static_cast<std::uint32_t>(hits.size()) * options_.block_size;
    tokens = std::min(s.size() - cached, budget);
    const std::size_t need =
        (cached + tokens + options_.block_size - 1) / options_.block_size - hits.size();
    const auto revived = static_cast<std::size_t>(
        std::count_if(hits.begin(), hits.end(), [this](BlockId id) { return pool_.is_free(id); }));
    if (need + revived > pool_.free()) {
        return false;
    }
    for (const BlockId id : hits) {
        pool_.touch(id);
    }
    s.blocks = hits;
    s.computed = cached;
    s.cached_blocks = hits.size();
    if (s.request.repeats_hits && !hits.empty()) {
        add_stored(s, 0, hits.size());
    }
    if (!s.is_scheduled_once) {
        s.is_scheduled_once = true;
        s.scheduled_us = now_us();
        if (options_.caches_prefixes) {
            stats_.cache_queries += s.size();
            stats_.cache_hits += cached;
        }
        if (const auto generation = s.mailbox.lock()) {
            const std::lock_guard lock(generation->mu_);
            generation->cached_tokens_ = cached;
        }
    }
    return grow(s, tokens);
}

void Engine::preempt_last() {
    const auto s = running_.back();
    running_.pop_back();
    pool_.release(s->blocks);
    s->blocks.clear();
    s->cached_blocks = 0;
    s->computed = 0;
    s->is_running = false;
    ++stats_.preemptions;
    waiting_.push_front(s);
}

void Engine::extend_hashes(Sequence& s) const {
    const std::size_t full = s.tokens.size() / options_.block_size;
    while (s.hashes.size() < full) {
        const std::size_t i = s.hashes.size();
        std::vector<ExtraKey> extra;
        if (const Lora* lora = s.request.lora) {
            extra.push_back(options_.tags_extra_keys
                                ? ExtraKey{{"lora", lora->name, lora->path}, true}
                                : ExtraKey{{lora->name}, false});
        }
        if (i == 0 && !s.request.salt.empty()) {
            extra.push_back(options_.tags_extra_keys
                                ? ExtraKey{{"cache_salt", s.request.salt}, true}
                                : ExtraKey{{s.request.salt}, false});
        }
        const std::span<const TokenId> tokens =
            std::span(s.tokens).subspan(i * options_.block_size, options_.block_size);
        s.hashes.push_back(hash_block(
            options_.algorithm, i == 0 ? options_.none_hash : s.hashes[i - 1], tokens, extra));
    }
}

void Engine::cache_full_blocks(Sequence& s, std::uint32_t upto) {
    if (!options_.caches_prefixes) {
        return;
    }
    const std::size_t full = std::min<std::size_t>(upto, s.size()) / options_.block_size;
    if (full <= s.cached_blocks) {
        return;
    }
    extend_hashes(s);
    for (std::size_t i = s.cached_blocks; i < full; ++i) {
        pool_.cache(s.blocks[i], s.hashes[i]);
    }
    add_stored(s, s.cached_blocks, full);
    s.cached_blocks = full;
}

void Engine::add_stored(const Sequence& s, std::size_t first, std::size_t end) {
    BlockStored e;
    const auto at = [&s](std::size_t block) {
        return s.hashes.begin() + static_cast<std::ptrdiff_t>(block);
    };
    e.hashes.assign(at(first), at(end));
    if (first > 0) {
        e.parent = s.hashes[first - 1];
    }
    const std::size_t size = options_.block_size;
    const auto token = [&](std::size_t block) {
        return s.tokens.begin() + static_cast<std::ptrdiff_t>(block * size);
    };
    e.tokens.assign(token(first), token(end));
    e.block_size = options_.block_size;
    for (std::size_t i = first; i < end; ++i) {
        auto& keys = e.extra_keys.emplace_back();
        if (s.request.lora != nullptr) {
            keys.push_back(s.request.lora->name);
        }
        if (i == 0 && !s.request.salt.empty()) {
            keys.push_back(s.request.salt);
        }
    }
    if (s.request.lora != nullptr) {
        e.lora_id = s.request.lora->id;
        e.lora_name = s.request.lora->name;
    }
    e.session_id = s.request.session_id;
    pool_.add_event(std::move(e));
}

}  // namespace sluice::sim::vllm
