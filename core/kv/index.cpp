#include "core/kv/index.hpp"

#include <bit>

#include "core/kv/index_state.hpp"

namespace sluice::kv {

Index::Index(const IndexOptions& options) : state_(std::make_unique<State>(options)) {}
Index::~Index() = default;

Status Index::attach(std::uint64_t endpoint, std::uint32_t ranks) {
    return state_->writer.attach(endpoint, ranks);
}

void Index::copy(Index& from, std::uint64_t endpoint) {
    state_->writer.copy(from.state_->writer, endpoint);
}

void Index::detach(std::uint64_t endpoint) {
    state_->writer.detach(endpoint);
}

Status Index::apply(const sluice_kv_batch& batch, std::uint32_t* unplaced) {
    return state_->writer.apply(batch, unplaced);
}

void Index::reset(std::uint64_t endpoint, std::uint32_t rank) {
    state_->writer.reset(endpoint, rank);
}

void Index::report(const sluice_kv_report& report) {
    state_->writer.report(report);
}

void Index::set_max_blocks(std::uint64_t max_blocks_per_endpoint) {
    state_->writer.set_max_blocks(max_blocks_per_endpoint);
}

std::vector<HolderStats> Index::stats() const {
    std::vector<HolderStats> out;
    const ReadGuard guard;
    const auto get = [](const Holder::Number& n) {
        return n.load(std::memory_order_relaxed);
    };
    for (std::uint32_t i = 0; i < state_->holders.stripes(); ++i) {
        const Stripe& stripe = *state_->holders.stripe(i);
        for (std::uint64_t left = stripe.attached.load(); left != 0; left &= left - 1) {
            const auto at = static_cast<std::size_t>(std::countr_zero(left));
            const Holder& h = stripe.holders[at];
            HolderStats s;
            s.endpoint = get(h.endpoint);
            s.rank = h.rank.load(std::memory_order_relaxed);
            s.doubtful = (stripe.doubt.load() >> at & 1U) != 0;
            s.gpu_blocks = get(h.gpu_blocks);
            s.total_blocks = get(h.total_blocks);
            s.last_event_us = get(h.last_event_us);
            s.evictions = get(h.evictions);
            s.unplaced = get(h.unplaced);
            s.unknown_removals = get(h.unknown_removals);
            s.saturated_copies = get(h.saturated_copies);
            out.push_back(s);
        }
    }
    return out;
}

MemoryUse Index::memory() const noexcept {
    return {state_->table.bytes() + state_->holders.bytes(), state_->writer.bytes(),
            state_->retired.bytes()};
}

std::vector<Key> Index::list(std::uint64_t endpoint, std::size_t limit) const {
    std::vector<Key> out;
    for (std::uint32_t s = 0; s < BlockTable::kSegments && out.size() < limit; ++s) {
        const ReadGuard guard;  // anew for each segment, so that freeing goes on meanwhile
        // Ids of the endpoint, a mask a stripe; they may change between segments.
        std::vector<std::uint64_t> ours(state_->holders.stripes());
        for (std::uint32_t i = 0; i < ours.size(); ++i) {
            const Stripe& stripe = *state_->holders.stripe(i);
            for (std::uint64_t left = stripe.attached.load() & ~stripe.hidden.load(); left != 0;
                 left &= left - 1) {
                const auto at = static_cast<std::size_t>(std::countr_zero(left));
                if (stripe.holders[at].endpoint.load(std::memory_order_relaxed) == endpoint) {
                    ours[i] |= std::uint64_t{1} << at;
                }
            }
        }
        const auto is_ours = [&](std::uint32_t id) {
            return id / 64 < ours.size() && (ours[id / 64] >> (id % 64) & 1U) != 0;
        };
        state_->table.visit(s, [&](Key key, Word w) {
            bool is_held_here = false;
            for (unsigned i = 0; !is_set(w) && i < kInlineHolders; ++i) {
                const std::uint32_t field = inline_field(w, i);
                is_held_here |= (field & 15U) != 0 && is_ours(field >> 4);
            }
            for (std::uint32_t i = 0; is_set(w) && i < set_of(w)->size(); ++i) {
                const SetChunk& chunk = *set_of(w)->chunk(i);
                is_held_here |=
                    chunk.stripe < ours.size() &&
                    (chunk.plane[0].load(std::memory_order_acquire) & ours[chunk.stripe]) != 0;
            }
            if (is_held_here) {
                out.push_back(key);
            }
            return out.size() < limit;
        });
    }
    return out;
}

}  // namespace sluice::kv
