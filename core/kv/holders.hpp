// Small dense ids for the ranks of a rule, with what readers ask about each.
//
// Threads: acquire(), release(), recycle() and the setters by one writer; reads from any thread
//          under a ReadGuard.
// Limits:  kMaxHolders ids; an id is given again only when its blocks are gone and no reader that
//          could mean its old owner is left.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "core/kv/holder_set.hpp"

namespace sluice::kv {

struct Holder {
    using Number = std::atomic<std::uint64_t>;
    Number endpoint{0};
    std::atomic<std::uint32_t> rank{0};
    Number gpu_blocks{0}, total_blocks{0}, last_event_us{0}, evictions{0};
    Number unplaced{0}, unknown_removals{0}, saturated_copies{0};
};

// 64 ids; what a walk needs of all of them at once is in bit masks.
struct Stripe {
    std::atomic<std::uint64_t> attached{0};
    std::atomic<std::uint64_t> doubt{0};   // blocks that are not fresh are doubtful
    std::atomic<std::uint64_t> hidden{0};  // being forgotten: nothing counts
    std::array<Holder, 64> holders;
};

class Holders {
public:
    static constexpr std::uint32_t kStripes = kMaxHolders / 64;

    std::size_t available() const noexcept {
        return free_.size() + (kStripes - owned_.size()) * 64;
    }
    // The lowest free id, so that sets stay dense. One must be available().
    std::uint32_t acquire(std::uint64_t endpoint, std::uint32_t rank);
    // The id's blocks are gone; it still is not free before recycle().
    void release(std::uint32_t id);
    void recycle(std::uint32_t id) { free_.push(id); }
    void set_doubt(std::uint32_t id, bool on) { put(&Stripe::doubt, id, on); }
    void set_hidden(std::uint32_t id, bool on) { put(&Stripe::hidden, id, on); }

    Holder& at(std::uint32_t id) const noexcept { return stripe(id / 64)->holders[id % 64]; }
    Stripe* stripe(std::uint32_t i) const noexcept { return stripes_[i].load(); }
    std::uint32_t stripes() const noexcept { return count_.load(); }
    std::size_t bytes() const noexcept { return sizeof *this + stripes() * sizeof(Stripe); }

private:
    void put(std::atomic<std::uint64_t> Stripe::* mask, std::uint32_t id, bool on);

    std::array<std::atomic<Stripe*>, kStripes> stripes_{};
    std::atomic<std::uint32_t> count_{0};
    std::vector<std::unique_ptr<Stripe>> owned_;
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free_;
};

}  // namespace sluice::kv
