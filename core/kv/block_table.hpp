// Key -> holders of one rule: open addressing that readers walk while the writer changes it.
//
// A slot's word changes as a whole, its key only when no reader can still mean the old one: a key
// nobody holds keeps its slot until the readers of that time are gone (rest()), then the slot may
// be given to another. Home slots begin a cache line: most look-ups touch one.
//
// Threads: set() and rest() by one writer; find() and visit() from any thread under a
//          ReadGuard.
// Units:   16 bytes a slot, 64 to 80 % of them in use.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/kv/holder_set.hpp"
#include "core/kv/keys.hpp"
#include "core/kv/slots.hpp"

namespace sluice::kv {

class BlockTable {
public:
    static constexpr std::uint32_t kSegments = 256;

    explicit BlockTable(Retired& retired) : words_(retired), retired_(&retired) {}
    ~BlockTable();
    BlockTable(const BlockTable&) = delete;
    BlockTable& operator=(const BlockTable&) = delete;

    // Gives `holder` these bits of a block (0 = takes it out); returns the bits it had.
    unsigned set(Key key, std::uint32_t holder, unsigned bits);

    // Between batches: finds out which abandoned slots no reader can be looking at.
    void rest();

    void prefetch(Key key) const noexcept {
        const std::uint64_t where = spread(key);
        if (const Segment s(segments_[where >> 56].load(std::memory_order_relaxed)); s.slots != 0) {
            __builtin_prefetch(s.slots + s.home(where));
        }
    }
    // The holders of a block; not held when nobody has it.
    Word find(Key key) const noexcept {
        const std::uint64_t where = spread(key);
        const Segment s(segments_[where >> 56].load());
        if (s.slots == nullptr) {
            return kNobody;
        }
        for (std::uint32_t at = s.home(where);; at = s.after(at)) {
            const Word w = s.slots[at].word.load();
            if (w == kNeverUsed) {
                return kNobody;
            }
            // The key of an abandoned slot may be changing.
            if (!is_left(w) && s.slots[at].key == key) {
                return w;
            }
        }
    }
    // Calls f(key, word) for the held blocks of one segment until it returns false; passes that on.
    template <class F>
    bool visit(std::uint32_t segment_index, F&& f) const {
        const Segment s(segments_[segment_index].load());
        for (std::uint32_t i = 0; i < s.capacity; ++i) {
            const Word w = s.slots[i].word.load();
            if (is_held(w) && !f(s.slots[i].key, w)) {
                return false;
            }
        }
        return true;
    }

    std::size_t bytes() const noexcept {
        return sizeof *this + slot_bytes_.load(std::memory_order_relaxed) + words_.set_bytes();
    }

private:
    struct Slot {
        Key key;  // fixed while `word` is that of a holder
        std::atomic<Word> word;
    };
    // Where a segment's slots are and how many, in one word: a pointer and 16 bits of size, so that
    // a look-up touches nothing but this word and the slot.
    using Packed = std::uint64_t;
    static constexpr unsigned kPointerBits = 48;  // user space of x86-64 and AArch64
    struct Segment {
        explicit Segment(Packed packed) noexcept
            : slots(reinterpret_cast<Slot*>(packed & ((Packed{1} << kPointerBits) - 1))),
              capacity(packed == 0 ? 0 : kCapacities[packed >> kPointerBits]) {}
        std::uint32_t home(std::uint64_t where) const noexcept {
            return scale(where >> 24, capacity / kLineSlots) * kLineSlots;
        }
        std::uint32_t after(std::uint32_t at) const noexcept {
            return at + 1 == capacity ? 0 : at + 1;
        }
        std::size_t bytes() const noexcept { return capacity * sizeof(Slot); }
        Slot* slots;
        std::uint32_t capacity;
    };
    static constexpr std::uint32_t kLineSlots = 4;
    static_assert(kRungs <= 1U << (64 - kPointerBits));
    struct Fill {
        std::uint32_t used = 0;  // slots with a key, abandoned ones included
        std::uint32_t live = 0;  // of these, held by somebody
    };

    void rebuild(std::uint32_t index);

    std::array<std::atomic<Packed>, kSegments> segments_{};
    std::array<Fill, kSegments> fill_{};
    HolderWords words_;
    Retired* retired_;
    std::atomic<std::size_t> slot_bytes_{0};
    // Time in periods between rest()s: slots abandoned before `settled_` may be given away.
    std::uint64_t period_ = 1;
    std::uint64_t settled_ = 0;
    std::uint64_t abandoned_ = 0;      // slots, since the period began
    std::uint64_t watched_epoch_ = 0;  // when it is over for all readers, so is `watched_`
    std::uint64_t watched_ = 0;        // 0 = no period is being waited for
};

}  // namespace sluice::kv
