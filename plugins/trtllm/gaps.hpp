// Why event numbers are missing: a ring that overflowed, or somebody else who drains.
//
// The wire tells them apart by the drain that the gap stands before. An overflow leaves a full
// ring, so that drain is as long as any, and of the same length each time; another consumer takes a
// share, so the drains after a gap are short. The size of the ring is not announced: it is at least
// the longest drain seen. Until a second gap confirms the first, both are named.
//
// Threads: none of its own; one instance per endpoint.
// Errors:  none.
// Units:   lengths in events of one drain, over all ranks.
// Source:  trtllm-serve's KV event ring: the oldest events are dropped, the numbers go on.
#pragma once
#include <algorithm>
#include <cstdint>
#include <set>

namespace sluice::trtllm {

class GapJudge {
public:
    static constexpr std::size_t kSurelyFull = 64;  // drains this long follow no rival's visit
    static constexpr std::size_t kLeastRing = 4;
    static constexpr unsigned kHealDrains = 16;  // without a gap, and not empty
    static constexpr unsigned kRepeated = 2;

    enum class Cause { None, Lost, Unclear, Overflow, SecondConsumer };

    // A drain of `length` events with a gap in it. `is_explained`: a reply was lost before it.
    Cause gap(std::size_t length, bool is_explained) {
        calm_ = 0;
        const bool is_short = length < longest_;
        const bool was_this_long = !full_.empty() && full_.contains(length);
        longest_ = std::max(longest_, length);
        if (is_explained) {
            return cause_ = worst(Cause::Lost);
        }
        if (is_short || length < kLeastRing) {
            ++short_;
            return cause_ = worst(short_ >= kRepeated ? Cause::SecondConsumer : Cause::Unclear);
        }
        if (full_.size() < kRemembered) {
            full_.insert(length);
        }
        const bool is_full = was_this_long || length >= kSurelyFull;
        return cause_ = worst(is_full ? Cause::Overflow : Cause::Unclear);
    }
    // A drain without a gap. True: enough of them to call the trouble over.
    bool calm(std::size_t length) noexcept {
        longest_ = std::max(longest_, length);
        if (length == 0 || cause_ == Cause::None || ++calm_ < kHealDrains) {
            return false;
        }
        cause_ = Cause::None;
        calm_ = 0;
        short_ = 0;
        full_.clear();
        return true;
    }
    Cause cause() const noexcept { return cause_; }
    // Another engine process has another ring.
    void forget() { *this = GapJudge{}; }

private:
    static constexpr std::size_t kRemembered = 64;
    Cause worst(Cause now) const noexcept {
        // What was told apart stays told apart; a new finding of that kind replaces it.
        return now >= Cause::Overflow || now > cause_ ? now : cause_;
    }
    Cause cause_ = Cause::None;
    std::size_t longest_ = 0;
    unsigned short_ = 0, calm_ = 0;
    std::set<std::size_t> full_;  // lengths of drains after a gap that were as long as any
};

}  // namespace sluice::trtllm
