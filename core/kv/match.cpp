#include "core/kv/match.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "core/kv/index_state.hpp"

namespace sluice::kv {

const Match* MatchSet::find(std::uint64_t endpoint, std::uint32_t rank) const noexcept {
    const auto it = std::find_if(matches_.begin(), matches_.end(), [&](const Match& m) {
        return m.endpoint == endpoint && m.rank == rank;
    });
    return it == matches_.end() ? nullptr : &*it;
}

const Match* MatchSet::best_rank(std::uint64_t endpoint) const noexcept {
    const Match* best = nullptr;
    for (const Match& m : matches_) {
        if (m.endpoint != endpoint) {
            continue;
        }
        if (best == nullptr || m.blocks > best->blocks ||
            (m.blocks == best->blocks && m.gpu_blocks > best->gpu_blocks)) {
            best = &m;
        }
    }
    return best;
}

void MatchSet::clear() noexcept {
    matches_.clear();
    active_.clear();
    walked_ = 0;
}

// One pass over the keys of a prompt for all holders at a time: each stripe of 64 holders is a
// word, and a block takes out the holders that lack it.
class Walk {
public:
    Walk(const BlockTable& table, const Holders& holders, MatchSet& out)
        : table_(table), holders_(holders), out_(out) {
        out_.clear();
    }
    // False when no holder reaches further.
    bool feed(std::span<const Key> keys) {
        while (!keys.empty()) {
            // The first block decides most walks; wide fetching before it would be for nothing.
            const std::size_t n = std::min(keys.size(), out_.walked_ == 0 ? 2 : kWide);
            if (!feed_some(keys.first(n))) {
                return false;
            }
            keys = keys.subspan(n);
        }
        return true;
    }
    void finish() {
        for (const Active& a : out_.active_) {
            settle(a, a.maybe, &Match::doubtful_blocks);
            settle(a, a.certain, &Match::blocks);
            settle(a, a.gpu, &Match::gpu_blocks);
        }
        out_.active_.clear();
        for (Match& m : out_.matches_) {
            m.doubtful_blocks -= m.blocks;  // held the whole reach until here
        }
    }

private:
    using Active = MatchSet::Active;
    static constexpr std::size_t kWide = 16;

    bool feed_some(std::span<const Key> keys) {
        std::array<Word, kWide> words;
        for (const Key key : keys) {
            table_.prefetch(key);
        }
        std::size_t held = 0;
        for (; held < keys.size(); ++held) {
            words[held] = table_.find(keys[held]);
            if (!is_held(words[held])) {
                break;
            }
            if (is_set(words[held])) {
                __builtin_prefetch(set_of(words[held]));
            }
        }
        for (std::size_t i = 0; i < held; ++i) {
            out_.walked_ == 0 ? begin(words[i]) : narrow(words[i]);
            ++out_.walked_;
            if (out_.active_.empty()) {
                return false;
            }
        }
        if (held < keys.size()) {
            finish();
            ++out_.walked_;
            return false;
        }
        return true;
    }

    static std::uint64_t plane(const SetChunk& chunk, unsigned p) noexcept {
        return chunk.plane[p].load(std::memory_order_acquire);
    }
    static Planes planes_of(const SetChunk& chunk) noexcept {
        return {{plane(chunk, 0), plane(chunk, 1), plane(chunk, 2), plane(chunk, 3)}};
    }
    static Planes planes_inline(Word w, std::uint32_t stripe) noexcept {
        Planes planes;
        for (unsigned i = 0; i < kInlineHolders; ++i) {
            const std::uint32_t field = inline_field(w, i);
            if (field >> 10 != stripe) {
                continue;
            }
            for (unsigned p = 0; p < kPlanes; ++p) {
                planes.bits[p] |= std::uint64_t{field >> p & 1U} << (field >> 4 & 63U);
            }
        }
        return planes;
    }

    void begin(Word w) {
        if (is_set(w)) {
            const HolderSet& set = *set_of(w);
            for (std::uint32_t i = 0; i < set.size(); ++i) {
                open(set.chunk(i)->stripe, planes_of(*set.chunk(i)));
            }
            return;
        }
        // In order of stripes, as sets are.
        std::array<std::uint32_t, kInlineHolders> stripes{};
        unsigned n = 0;
        for (unsigned i = 0; i < kInlineHolders; ++i) {
            const std::uint32_t field = inline_field(w, i);
            if ((field & 15U) == 0) {
                continue;
            }
            unsigned at = n++;
            for (; at > 0 && stripes[at - 1] > field >> 10; --at) {
                stripes[at] = stripes[at - 1];
            }
            stripes[at] = field >> 10;
        }
        for (unsigned i = 0; i < n; ++i) {
            if (i == 0 || stripes[i] != stripes[i - 1]) {
                open(stripes[i], planes_inline(w, stripes[i]));
            }
        }
    }

    void open(std::uint32_t index, const Planes& planes) {
        const Stripe& stripe = *holders_.stripe(index);
        Active a{};
        a.stripe = index;
        a.base = static_cast<std::uint32_t>(out_.matches_.size());
        a.doubt = stripe.doubt.load();
        a.hidden = stripe.hidden.load();
        a.maybe = planes.bits[0] & ~a.hidden;
        a.first = a.maybe;
        a.certain = a.maybe & (~a.doubt | planes.bits[2]);
        a.gpu = a.certain & planes.bits[1] & (~a.doubt | planes.bits[3]);
        if (a.maybe == 0) {
            return;
        }
        for (std::uint64_t left = a.maybe; left != 0; left &= left - 1) {
            const Holder& h = stripe.holders[static_cast<std::size_t>(std::countr_zero(left))];
            out_.matches_.push_back({h.endpoint.load(std::memory_order_relaxed),
                                     h.rank.load(std::memory_order_relaxed), 0, 0, 0});
        }
        out_.active_.push_back(a);
    }

    void narrow(Word w) {
        const HolderSet* set = is_set(w) ? set_of(w) : nullptr;
        std::uint32_t cursor = 0;
        std::size_t kept = 0;
        for (Active& a : out_.active_) {
            Planes planes;
            if (set == nullptr) {
                planes = planes_inline(w, a.stripe);
            } else {
                while (cursor < set->size() && set->chunk(cursor)->stripe < a.stripe) {
                    ++cursor;
                }
                if (cursor < set->size() && set->chunk(cursor)->stripe == a.stripe) {
                    planes = planes_of(*set->chunk(cursor));
                }
            }
            const std::uint64_t maybe = a.maybe & planes.bits[0];
            const std::uint64_t certain = a.certain & maybe & (~a.doubt | planes.bits[2]);
            const std::uint64_t gpu =
                a.gpu & certain & planes.bits[1] & (~a.doubt | planes.bits[3]);
            settle(a, a.maybe & ~maybe, &Match::doubtful_blocks);
            settle(a, a.certain & ~certain, &Match::blocks);
            settle(a, a.gpu & ~gpu, &Match::gpu_blocks);
            a.maybe = maybe;
            a.certain = certain;
            a.gpu = gpu;
            if (maybe != 0) {
                out_.active_[kept++] = a;
            }
        }
        out_.active_.resize(kept);
        if (kept == 0) {
            finish();
        }
    }

    // These holders got as far as the walk has come.
    void settle(const Active& a, std::uint64_t who, std::uint32_t Match::* reach) {
        for (; who != 0; who &= who - 1) {
            const std::uint64_t before = (who & -who) - 1;
            const auto place = static_cast<std::size_t>(std::popcount(a.first & before));
            out_.matches_[a.base + place].*reach = out_.walked_;
        }
    }

    const BlockTable& table_;
    const Holders& holders_;
    MatchSet& out_;
};

void Index::match(std::span<const Key> query, MatchSet& out) const {
    const ReadGuard guard;
    Walk walk(state_->table, state_->holders, out);
    if (walk.feed(query)) {
        walk.finish();
    }
}

void Index::match_prompt(Key root, std::span<const std::uint32_t> tokens,
                         std::uint32_t block_tokens, MatchSet& out) const {
    ChainCursor cursor(root, tokens, block_tokens);
    std::array<Key, 32> keys;
    const ReadGuard guard;
    Walk walk(state_->table, state_->holders, out);
    for (;;) {
        const std::size_t n = cursor.next(keys);
        if (n == 0) {
            walk.finish();
            return;
        }
        if (!walk.feed(std::span(keys).first(n))) {
            return;
        }
    }
}

}  // namespace sluice::kv
