// Key -> holders of one rule: open addressing that readers walk while the writer changes it.
//
// A slot's key is written once; its word changes as a whole. A key nobody holds keeps its slot
// until the segment is rebuilt, so a reader never meets a slot that means another key than before.
//
// Threads: set() and prefetch() by one writer; find() and visit() from any thread under a
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

    void prefetch(Key key) const noexcept {
        const std::uint64_t where = spread(key);
        if (const Segment* s = segment(where).load(); s != nullptr) {
            __builtin_prefetch(s->slots() + scale(where >> 24, s->capacity));
        }
    }
    // The holders of a block; not held when nobody has it.
    Word find(Key key) const noexcept {
        const std::uint64_t where = spread(key);
        const Segment* s = segment(where).load();
        if (s == nullptr) {
            return kNobody;
        }
        const Slot* const slots = s->slots();
        std::uint32_t at = scale(where >> 24, s->capacity);
        for (;;) {
            const Word w = slots[at].word.load();
            if (w == kNeverUsed) {
                return kNobody;
            }
            if (slots[at].key == key) {
                return w;
            }
            at = at + 1 == s->capacity ? 0 : at + 1;
        }
    }
    // Calls f(key, word) for the held blocks of one segment until it returns false; passes that on.
    template <class F>
    bool visit(std::uint32_t segment_index, F&& f) const {
        const Segment* s = segments_[segment_index].load();
        for (std::uint32_t i = 0; s != nullptr && i < s->capacity; ++i) {
            const Word w = s->slots()[i].word.load();
            if (is_held(w) && !f(s->slots()[i].key, w)) {
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
        Key key;  // fixed once `word` was published
        std::atomic<Word> word;
    };
    struct Segment {
        std::uint32_t capacity;
        std::uint32_t reserved;
        Slot* slots() noexcept { return reinterpret_cast<Slot*>(this + 1); }
        const Slot* slots() const noexcept { return reinterpret_cast<const Slot*>(this + 1); }
        static std::size_t bytes(std::uint32_t capacity) noexcept {
            return sizeof(Segment) + capacity * sizeof(Slot);
        }
    };
    struct Fill {
        std::uint32_t used = 0;  // slots with a key
        std::uint32_t live = 0;  // of these, held by somebody
    };

    const std::atomic<Segment*>& segment(std::uint64_t where) const noexcept {
        return segments_[where >> 56];
    }
    void rebuild(std::uint32_t index);

    std::array<std::atomic<Segment*>, kSegments> segments_{};
    std::array<Fill, kSegments> fill_{};
    HolderWords words_;
    Retired* retired_;
    std::atomic<std::size_t> slot_bytes_{0};
};

}  // namespace sluice::kv
