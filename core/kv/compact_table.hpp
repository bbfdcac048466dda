// An open-addressing multimap from 64-bit hashes to small records, for one thread.
//
// Record: trivially copyable, all zero bits = vacant; has `std::uint64_t hash() const` and
// `bool is_vacant() const`. Records of one hash lie in one run of slots. Pointers into the table
// are valid until the next insert() or erase().
//
// Threads: one.
// Units:   64 to 80 % of the slots are in use; a table that emptied shrinks.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "core/kv/slots.hpp"

namespace sluice::kv {

template <class Record>
class CompactTable {
    static_assert(std::is_trivially_copyable_v<Record>);

public:
    static constexpr std::uint32_t kSegments = 64;

    CompactTable() = default;
    ~CompactTable() { clear(); }
    CompactTable(const CompactTable&) = delete;
    CompactTable& operator=(const CompactTable&) = delete;

    void prefetch(std::uint64_t hash) const noexcept {
        const std::uint64_t where = spread(hash);
        const Segment& s = segments_[where >> 58];
        if (s.slots != nullptr) {
            // Where the run of a new record ends is two lines away more often than not.
            const auto* at =
                reinterpret_cast<const char*>(s.slots + scale(where >> 26, s.capacity));
            __builtin_prefetch(at, 1);
            __builtin_prefetch(at + 64, 1);
            __builtin_prefetch(at + 128, 1);
        }
    }
    // The first record of `hash` that `wanted(record)` accepts; null when there is none.
    template <class P>
    Record* find_if(std::uint64_t hash, P&& wanted) noexcept {
        const std::uint64_t where = spread(hash);
        Segment& s = segments_[where >> 58];
        if (s.slots == nullptr) {
            return nullptr;
        }
        std::uint32_t at = scale(where >> 26, s.capacity);
        for (; !s.slots[at].is_vacant(); at = s.after(at)) {
            if (s.slots[at].hash() == hash && wanted(s.slots[at])) {
                return s.slots + at;
            }
        }
        return nullptr;
    }
    Record* find(std::uint64_t hash) noexcept {
        return find_if(hash, [](const Record&) { return true; });
    }
    Record& insert(const Record& record) {
        const std::uint64_t where = spread(record.hash());
        const auto index = static_cast<std::uint32_t>(where >> 58);
        Segment& s = segments_[index];
        if (s.slots == nullptr || is_crowded(s.size + 1U, s.capacity)) {
            resize(s, index);
        }
        ++s.size;
        ++size_;
        return s.place(where, record);
    }
    void erase(const Record* record) {
        const auto index = static_cast<std::uint32_t>(spread(record->hash()) >> 58);
        Segment& s = segments_[index];
        s.close_gap(static_cast<std::uint32_t>(record - s.slots));
        dropped(s, index);
    }
    // Erases what `doomed(record)` accepts; it may change the others in place.
    template <class P>
    void erase_if(P&& doomed) {
        for (std::uint32_t index = 0; index < kSegments; ++index) {
            Segment& s = segments_[index];
            for (std::uint32_t at = 0; at < s.capacity;) {
                // Closing a gap moves later records down to it, so the slot is looked at again. A
                // record that wraps around is seen twice, none is missed.
                if (!s.slots[at].is_vacant() && doomed(s.slots[at])) {
                    s.close_gap(at);
                    --s.size;
                    --size_;
                } else {
                    ++at;
                }
            }
            shrink(s, index);
        }
    }
    // `f` may change records in place.
    template <class F>
    void for_each(F&& f) {
        for (Segment& s : segments_) {
            for (std::uint32_t at = 0; at < s.capacity; ++at) {
                if (!s.slots[at].is_vacant()) {
                    f(s.slots[at]);
                }
            }
        }
    }
    // The record in or after slot `at` of a segment, for walks in portions; null at its end.
    Record* next_in(std::uint32_t segment, std::uint32_t& at) noexcept {
        Segment& s = segments_[segment];
        for (; at < s.capacity; ++at) {
            if (!s.slots[at].is_vacant()) {
                return s.slots + at++;
            }
        }
        return nullptr;
    }
    // Holds the same records as `from`, and nothing else.
    void copy(const CompactTable& from) {
        clear();
        for (std::uint32_t index = 0; index < kSegments; ++index) {
            const Segment& s = from.segments_[index];
            if (s.slots == nullptr) {
                continue;
            }
            const std::size_t bytes = s.capacity * sizeof(Record);
            auto* slots = static_cast<Record*>(std::malloc(bytes));
            if (slots == nullptr) {
                throw std::bad_alloc();
            }
            std::copy_n(s.slots, s.capacity, slots);
            segments_[index] = {slots, s.capacity, s.size};
            size_ += s.size;
            bytes_ += bytes;
        }
    }
    void clear() noexcept {
        for (Segment& s : segments_) {
            std::free(s.slots);
            s = Segment{};
        }
        size_ = 0;
        bytes_ = 0;
    }
    std::size_t size() const noexcept { return size_; }
    std::size_t bytes() const noexcept { return bytes_; }

private:
    struct Segment {
        Record* slots = nullptr;
        std::uint32_t capacity = 0;
        std::uint32_t size = 0;

        std::uint32_t after(std::uint32_t at) const noexcept {
            return at + 1 == capacity ? 0 : at + 1;
        }
        Record& place(std::uint64_t where, const Record& record) noexcept {
            std::uint32_t at = scale(where >> 26, capacity);
            while (!slots[at].is_vacant()) {
                at = after(at);
            }
            slots[at] = record;
            return slots[at];
        }
        // Moves records of the run back so that each is still reached from its home.
        void close_gap(std::uint32_t gap) noexcept {
            for (std::uint32_t at = after(gap); !slots[at].is_vacant(); at = after(at)) {
                const std::uint32_t home = scale(spread(slots[at].hash()) >> 26, capacity);
                const std::uint32_t from_home = at >= home ? at - home : at + capacity - home;
                const std::uint32_t from_gap = at >= gap ? at - gap : at + capacity - gap;
                if (from_home >= from_gap) {
                    slots[gap] = slots[at];
                    gap = at;
                }
            }
            slots[gap] = Record{};
        }
    };

    void dropped(Segment& s, std::uint32_t index) {
        --s.size;
        --size_;
        shrink(s, index);
    }
    void shrink(Segment& s, std::uint32_t index) {
        if (s.capacity > 32 && s.size < s.capacity / 4) {
            resize(s, index);
        }
    }
    void resize(Segment& s, std::uint32_t index) {
        Segment next;
        next.capacity = kCapacities[rung_for(s.size, index)];
        next.size = s.size;
        next.slots = static_cast<Record*>(std::calloc(next.capacity, sizeof(Record)));
        if (next.slots == nullptr) {
            throw std::bad_alloc();
        }
        for (std::uint32_t at = 0; at < s.capacity; ++at) {
            if (!s.slots[at].is_vacant()) {
                next.place(spread(s.slots[at].hash()), s.slots[at]);
            }
        }
        bytes_ += next.capacity * sizeof(Record);
        bytes_ -= s.capacity * sizeof(Record);
        std::free(s.slots);
        s = next;
    }

    std::array<Segment, kSegments> segments_{};
    std::size_t size_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace sluice::kv
