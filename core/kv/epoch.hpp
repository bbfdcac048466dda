// Memory that readers may still look at, freed when they have left: epoch-based reclamation.
//
// A reader announces the epoch it entered in; a writer that replaced something tags it with the
// epoch of that moment and frees it once every reader inside entered later.
//
// Threads: ReadGuard on any thread, wait-free after its first use there. Retired belongs to one
//          writer; several writers share the epochs.
// Limits:  one announcement slot a thread that ever read, reused after the thread ends.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::kv {

namespace epoch {

struct alignas(64) Slot {
    std::atomic<std::uint64_t> entered{0};  // 0 = outside
    std::uint32_t depth = 0;                // owning thread only
    std::atomic<bool> owned{false};
    Slot* next = nullptr;
};

extern constinit std::atomic<std::uint64_t> current;
extern constinit thread_local Slot* mine;
Slot* claim_slot();
// The epoch of the reader that has been inside longest; the maximum when there is none.
std::uint64_t oldest_reader() noexcept;

}  // namespace epoch

// While one lives on this thread, nothing it can reach is freed. Keep it for microseconds.
class ReadGuard {
public:
    ReadGuard() : slot_(epoch::mine != nullptr ? epoch::mine : epoch::claim_slot()) {
        if (slot_->depth++ == 0) {
            // Sequentially consistent, as are the reader's loads of replaceable pointers and the
            // writer's stores of them: either the writer sees this entry or we see its new pointer.
            slot_->entered.store(epoch::current.load());
        }
    }
    ~ReadGuard() {
        if (--slot_->depth == 0) {
            slot_->entered.store(0, std::memory_order_release);
        }
    }
    ReadGuard(const ReadGuard&) = delete;
    ReadGuard& operator=(const ReadGuard&) = delete;

private:
    epoch::Slot* slot_;
};

// What one writer took out of sight.
class Retired {
public:
    Retired() = default;
    ~Retired();  // no reader may be inside
    Retired(const Retired&) = delete;
    Retired& operator=(const Retired&) = delete;

    // From std::malloc; already unreachable for readers that enter now.
    void memory(void* block, std::size_t bytes);
    // A holder id, to be handed out again only when no reader can still mean its old owner.
    void holder(std::uint32_t id);
    // Frees what no reader can reach any more; appends the holder ids set free.
    void collect(std::vector<std::uint32_t>& holders);
    std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

private:
    struct Item {
        std::uint64_t epoch;
        void* block;  // null = a holder id
        std::size_t bytes;
        std::uint32_t holder;
    };
    void push(Item item);

    std::vector<Item> items_;  // oldest first
    std::atomic<std::size_t> bytes_{0};
    bool is_sealed_ = true;  // the epoch has moved on since the last push
};

}  // namespace sluice::kv
