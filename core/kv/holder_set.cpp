#include "core/kv/holder_set.hpp"

#include <bit>
#include <cstdlib>
#include <new>

namespace sluice::kv {
namespace {

Word with_field(Word w, unsigned i, std::uint32_t field) noexcept {
    const unsigned shift = 2 + 20 * i;
    return (w & ~(Word{0xFFFFF} << shift)) | Word{field} << shift;
}

Word pointer_word(const HolderSet* set) noexcept {
    return reinterpret_cast<Word>(set) | 2U;
}

std::uint64_t load(const std::atomic<std::uint64_t>& plane) noexcept {
    return plane.load(std::memory_order_relaxed);
}

unsigned bits_at(const SetChunk& chunk, unsigned at) noexcept {
    unsigned bits = 0;
    for (unsigned p = 0; p < kPlanes; ++p) {
        bits |= static_cast<unsigned>(load(chunk.plane[p]) >> at & 1U) << p;
    }
    return bits;
}

void put(SetChunk& chunk, unsigned at, unsigned bits) noexcept {
    // Release: a reader that sees a holder's bit must see who the holder is.
    for (unsigned p = 0; p < kPlanes; ++p) {
        const std::uint64_t now = load(chunk.plane[p]);
        const std::uint64_t want = (now & ~(std::uint64_t{1} << at)) | std::uint64_t{bits >> p & 1U}
                                                                           << at;
        if (want != now) {
            chunk.plane[p].store(want, std::memory_order_release);
        }
    }
}

}  // namespace

HolderSet* HolderSet::make(std::uint32_t chunks) {
    void* raw = std::malloc(bytes(chunks));
    if (raw == nullptr) {
        throw std::bad_alloc();
    }
    auto* set = new (raw) HolderSet;
    set->chunks_ = chunks;
    for (std::uint32_t i = 0; i < chunks; ++i) {
        new (set->first() + i) SetChunk{};
    }
    return set;
}

void HolderWords::account(std::ptrdiff_t bytes) noexcept {
    set_bytes_.store(set_bytes_.load(std::memory_order_relaxed) + static_cast<std::size_t>(bytes),
                     std::memory_order_relaxed);
}

void HolderWords::retire(const HolderSet* set) {
    account(-static_cast<std::ptrdiff_t>(set->bytes()));
    retired_->memory(const_cast<HolderSet*>(set), set->bytes());
}

void HolderWords::destroy(Word w) {
    if (is_set(w)) {
        std::free(const_cast<HolderSet*>(set_of(w)));
    }
}

HolderSet* HolderWords::with_stripe(const HolderSet& old, std::uint32_t stripe) {
    HolderSet* grown = HolderSet::make(old.size() + 1);
    account(static_cast<std::ptrdiff_t>(grown->bytes()));
    grown->holders_ = old.holders_;
    std::uint32_t to = 0;
    bool is_placed = false;
    for (std::uint32_t from = 0; from < old.size(); ++from) {
        const SetChunk& chunk = *old.chunk(from);
        if (!is_placed && stripe < chunk.stripe) {
            grown->first()[to++].stripe = stripe;
            is_placed = true;
        }
        grown->first()[to].stripe = chunk.stripe;
        for (unsigned p = 0; p < kPlanes; ++p) {
            grown->first()[to].plane[p].store(load(chunk.plane[p]), std::memory_order_relaxed);
        }
        ++to;
    }
    if (!is_placed) {
        grown->first()[to].stripe = stripe;
    }
    return grown;
}

Word HolderWords::spill(Word full, std::uint32_t holder, unsigned bits) {
    HolderSet* set = HolderSet::make(0);
    account(static_cast<std::ptrdiff_t>(set->bytes()));
    const auto add = [&](std::uint32_t id, unsigned have) {
        const std::uint32_t stripe = id / 64;
        SetChunk* chunk = nullptr;
        for (int round = 0; chunk == nullptr && round < 2; ++round) {
            for (std::uint32_t i = 0; i < set->size(); ++i) {
                if (set->first()[i].stripe == stripe) {
                    chunk = set->first() + i;
                }
            }
            if (chunk == nullptr) {
                // Never seen by a reader: no need to retire it.
                HolderSet* grown = with_stripe(*set, stripe);
                account(-static_cast<std::ptrdiff_t>(set->bytes()));
                std::free(set);
                set = grown;
            }
        }
        put(*chunk, id % 64, have);
        ++set->holders_;
    };
    for (unsigned i = 0; i < kInlineHolders; ++i) {
        const std::uint32_t field = inline_field(full, i);
        add(field >> 4, field & 15U);
    }
    add(holder, bits);
    return pointer_word(set);
}

unsigned HolderWords::set_in(std::atomic<Word>& word, HolderSet* set, std::uint32_t holder,
                             unsigned bits) {
    const std::uint32_t stripe = holder / 64;
    SetChunk* chunk = nullptr;
    for (std::uint32_t i = 0; i < set->size() && chunk == nullptr; ++i) {
        if (set->first()[i].stripe == stripe) {
            chunk = set->first() + i;
        }
    }
    if (chunk == nullptr) {
        if (bits == 0) {
            return 0;
        }
        HolderSet* grown = with_stripe(*set, stripe);
        for (std::uint32_t i = 0; i < grown->size(); ++i) {
            if (grown->first()[i].stripe == stripe) {
                put(grown->first()[i], holder % 64, bits);
            }
        }
        ++grown->holders_;
        word.store(pointer_word(grown));
        retire(set);
        return 0;
    }
    const unsigned had = bits_at(*chunk, holder % 64);
    put(*chunk, holder % 64, bits);
    if (had == 0 && bits != 0) {
        ++set->holders_;
    } else if (had != 0 && bits == 0) {
        --set->holders_;
    }
    // Two, not three: a holder that comes and goes must not cost an allocation each time.
    if (set->holders_ >= kInlineHolders) {
        return had;
    }
    Word small = kNobody;
    unsigned field = 0;
    for (std::uint32_t i = 0; i < set->size(); ++i) {
        const SetChunk& c = *set->chunk(i);
        for (std::uint64_t left = load(c.plane[0]); left != 0; left &= left - 1) {
            const auto at = static_cast<unsigned>(std::countr_zero(left));
            small = with_field(small, field++, (c.stripe * 64 + at) << 4 | bits_at(c, at));
        }
    }
    word.store(small);
    retire(set);
    return had;
}

unsigned HolderWords::set(std::atomic<Word>& word, std::uint32_t holder, unsigned bits, Word left) {
    const Word now = word.load(std::memory_order_relaxed);
    if (is_set(now)) {
        return set_in(word, const_cast<HolderSet*>(set_of(now)), holder, bits);
    }
    const Word base = is_held(now) ? now : kNobody;
    unsigned vacant = kInlineHolders;
    for (unsigned i = 0; i < kInlineHolders; ++i) {
        const std::uint32_t field = inline_field(base, i);
        if ((field & 15U) == 0) {
            vacant = i;
        } else if (field >> 4 == holder) {
            const Word next = with_field(base, i, bits == 0 ? 0 : holder << 4 | bits);
            if (next == kNobody) {
                word.store(left);  // as a replaced pointer: see ReadGuard
            } else {
                word.store(next, std::memory_order_release);
            }
            return field & 15U;
        }
    }
    if (bits != 0) {
        word.store(vacant < kInlineHolders ? with_field(base, vacant, holder << 4 | bits)
                                           : spill(base, holder, bits),
                   std::memory_order_release);
    }
    return 0;
}

}  // namespace sluice::kv
