#include "core/kv/block_table.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace sluice::kv {

BlockTable::~BlockTable() {
    for (auto& entry : segments_) {
        const Segment s(entry.load());
        for (std::uint32_t i = 0; i < s.capacity; ++i) {
            HolderWords::destroy(s.slots[i].word.load(std::memory_order_relaxed));
        }
        std::free(s.slots);
    }
}

void BlockTable::rebuild(std::uint32_t index) {
    const Segment old(segments_[index].load(std::memory_order_relaxed));
    Fill& fill = fill_[index];
    const std::uint32_t rung = rung_for(fill.live, index);
    const std::size_t bytes = kCapacities[rung] * sizeof(Slot);
    void* raw = std::aligned_alloc(kLineSlots * sizeof(Slot), bytes);
    if (raw == nullptr) {
        throw std::bad_alloc();
    }
    std::memset(raw, 0, bytes);  // all bits zero: never used
    const Packed packed = reinterpret_cast<Packed>(raw) | Packed{rung} << kPointerBits;
    const Segment fresh(packed);
    for (std::uint32_t i = 0; i < old.capacity; ++i) {
        const Slot& from = old.slots[i];
        const Word w = from.word.load(std::memory_order_relaxed);
        if (!is_held(w)) {
            continue;
        }
        std::uint32_t at = fresh.home(spread(from.key));
        while (fresh.slots[at].word.load(std::memory_order_relaxed) != kNeverUsed) {
            at = fresh.after(at);
        }
        fresh.slots[at].key = from.key;
        fresh.slots[at].word.store(w, std::memory_order_relaxed);
    }
    fill.used = fill.live;
    segments_[index].store(packed);
    slot_bytes_.store(slot_bytes_.load(std::memory_order_relaxed) + bytes - old.bytes(),
                      std::memory_order_relaxed);
    if (old.slots != nullptr) {
        retired_->memory(old.slots, old.bytes());
    }
}

unsigned BlockTable::set(Key key, std::uint32_t holder, unsigned bits) {
    const std::uint64_t where = spread(key);
    const auto index = static_cast<std::uint32_t>(where >> 56);
    Fill& fill = fill_[index];
    for (;;) {
        const Segment s(segments_[index].load(std::memory_order_relaxed));
        if (s.slots == nullptr) {
            if (bits == 0) {
                return 0;
            }
            rebuild(index);
            continue;
        }
        Slot* free = nullptr;
        std::uint32_t at = s.home(where);
        Word w = s.slots[at].word.load(std::memory_order_relaxed);
        while (w != kNeverUsed && s.slots[at].key != key) {
            if (free == nullptr && is_left(w) && left_since(w) < settled_) {
                free = s.slots + at;
            }
            at = s.after(at);
            w = s.slots[at].word.load(std::memory_order_relaxed);
        }
        Slot* slot = s.slots + at;
        if (w == kNeverUsed) {
            if (bits == 0) {
                return 0;
            }
            if (free != nullptr) {
                slot = free;
            } else if (is_crowded(fill.used + 1U, s.capacity)) {
                rebuild(index);
                continue;
            } else {
                ++fill.used;
            }
            slot->key = key;
        }
        const unsigned had = words_.set(slot->word, holder, bits, left_word(period_));
        const bool is_live = is_held(slot->word.load(std::memory_order_relaxed));
        if (is_live && !is_held(w)) {
            ++fill.live;
        } else if (!is_live && is_held(w)) {
            --fill.live;
            ++abandoned_;
            if (fill.used > 16 && fill.live < fill.used / 4) {
                rebuild(index);
            }
        }
        return had;
    }
}

void BlockTable::rest() {
    constexpr std::uint64_t kWorthwhile = 256;
    if (watched_ == 0 && abandoned_ >= kWorthwhile) {
        watched_ = period_++;
        watched_epoch_ = epoch::current.fetch_add(1);
        abandoned_ = 0;
    }
    if (watched_ != 0 && epoch::oldest_reader() > watched_epoch_) {
        settled_ = watched_ + 1;
        watched_ = 0;
    }
}

}  // namespace sluice::kv
