#include "core/kv/block_table.hpp"

#include <cstdlib>
#include <new>

namespace sluice::kv {

BlockTable::~BlockTable() {
    for (auto& entry : segments_) {
        Segment* s = entry.load();
        for (std::uint32_t i = 0; s != nullptr && i < s->capacity; ++i) {
            HolderWords::destroy(s->slots()[i].word.load(std::memory_order_relaxed));
        }
        std::free(s);
    }
}

void BlockTable::rebuild(std::uint32_t index) {
    Segment* old = segments_[index].load(std::memory_order_relaxed);
    Fill& fill = fill_[index];
    const std::uint32_t capacity = ladder_capacity(fill.live, index, kSegments);
    // Zeroed by the allocator: never-used slots are all zero bits.
    void* raw = std::calloc(1, Segment::bytes(capacity));
    if (raw == nullptr) {
        throw std::bad_alloc();
    }
    auto* fresh = new (raw) Segment;
    fresh->capacity = capacity;
    for (std::uint32_t i = 0; old != nullptr && i < old->capacity; ++i) {
        const Slot& from = old->slots()[i];
        const Word w = from.word.load(std::memory_order_relaxed);
        if (!is_held(w)) {
            continue;
        }
        std::uint32_t at = scale(spread(from.key) >> 24, capacity);
        while (fresh->slots()[at].word.load(std::memory_order_relaxed) != kNeverUsed) {
            at = at + 1 == capacity ? 0 : at + 1;
        }
        fresh->slots()[at].key = from.key;
        fresh->slots()[at].word.store(w, std::memory_order_relaxed);
    }
    fill.used = fill.live;
    segments_[index].store(fresh);
    std::size_t bytes = slot_bytes_.load(std::memory_order_relaxed) + Segment::bytes(capacity);
    if (old != nullptr) {
        bytes -= Segment::bytes(old->capacity);
        retired_->memory(old, Segment::bytes(old->capacity));
    }
    slot_bytes_.store(bytes, std::memory_order_relaxed);
}

unsigned BlockTable::set(Key key, std::uint32_t holder, unsigned bits) {
    const std::uint64_t where = spread(key);
    const auto index = static_cast<std::uint32_t>(where >> 56);
    Fill& fill = fill_[index];
    for (;;) {
        Segment* s = segments_[index].load(std::memory_order_relaxed);
        if (s == nullptr) {
            if (bits == 0) {
                return 0;
            }
            rebuild(index);
            continue;
        }
        Slot* const slots = s->slots();
        std::uint32_t at = scale(where >> 24, s->capacity);
        Word w = slots[at].word.load(std::memory_order_relaxed);
        while (w != kNeverUsed && slots[at].key != key) {
            at = at + 1 == s->capacity ? 0 : at + 1;
            w = slots[at].word.load(std::memory_order_relaxed);
        }
        if (w == kNeverUsed) {
            if (bits == 0) {
                return 0;
            }
            if (is_crowded(fill.used + 1U, s->capacity)) {
                rebuild(index);
                continue;
            }
            slots[at].key = key;
            ++fill.used;
        }
        const unsigned had = words_.set(slots[at].word, holder, bits);
        const bool is_live = is_held(slots[at].word.load(std::memory_order_relaxed));
        if (is_live && !is_held(w)) {
            ++fill.live;
        } else if (!is_live && is_held(w)) {
            --fill.live;
            if (fill.used > 16 && fill.live < fill.used / 4) {
                rebuild(index);
            }
        }
        return had;
    }
}

}  // namespace sluice::kv
