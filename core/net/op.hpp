// One awaited operation of a loop: its deadline, its cancellation and its outcome.
//
// Threads: its loop's.
// Owns:    an Op lives in the frame of the coroutine that awaits it. Destroyed while pending it
//          withdraws itself, so that frames may be destroyed at any moment.
// Errors:  Code::Timeout, Cancelled (the Cancel fired), Closed (reset, broken pipe, own socket
//          closed meanwhile), Unavailable (refused, unreachable), Unsupported (not in this kernel),
//          Io (anything else the system said).
#pragma once
#include <coroutine>
#include <cstddef>
#include <cstdint>

#include "core/base/result.hpp"
#include "core/net/cancel.hpp"
#include "core/net/timer_wheel.hpp"

namespace sluice::net {

class Loop;
struct Channel;

// How long to wait and who may end it. `deadline_us` is absolute, on the clock of Loop::now_us().
struct Wait {
    std::uint64_t deadline_us = kNever;
    Cancel* cancel = nullptr;
};

class Op : public Timer, public Cancel::Waiter {
public:
    // Outcomes beside 0 (done) and errno values.
    static constexpr int kTimedOut = -1;
    static constexpr int kCancelled = -2;
    static constexpr int kClosedHere = -3;  // our side closed the socket under the operation

    Op(Loop& loop, const Wait& wait) noexcept : loop_(loop), wait_(wait) {}
    ~Op() override { retire(); }

    bool await_ready() noexcept;
    void await_suspend(std::coroutine_handle<> waiter) noexcept;

    // Ends a pending operation; its awaiter is queued. Used by loops and events.
    void finish(int outcome) noexcept;

protected:
    // Tries to be done at once, without waiting; sets the outcome when it returns true.
    virtual bool try_now() noexcept = 0;
    // From here on whoever makes it happen calls finish().
    virtual void begin() noexcept = 0;
    // Stop waiting and finish with `outcome`: at once, or when a kernel that owns the buffers says
    // so.
    virtual void withdraw(int outcome) noexcept = 0;
    // The frame is going away: forget this operation before returning.
    virtual void abandon() noexcept = 0;

    Loop& loop() const noexcept { return loop_; }
    int outcome() const noexcept { return outcome_; }
    void set_outcome(int outcome) noexcept { outcome_ = outcome; }
    Error error(const char* what) const;
    // Derived destructors call this first, while their part still exists.
    void retire() noexcept {
        if (state_ == State::Pending || state_ == State::Queued) {
            give_up();
        }
    }

private:
    friend class Loop;
    enum class State : std::uint8_t { Fresh, Pending, Queued, Done };

    void give_up() noexcept;
    void expired() noexcept final { withdraw(kTimedOut); }
    void cancelled() noexcept final { withdraw(kCancelled); }

    Loop& loop_;
    Wait wait_;
    std::coroutine_handle<> waiter_;
    Op* ready_prev_ = nullptr;
    Op* ready_next_ = nullptr;
    int outcome_ = 0;
    State state_ = State::Fresh;
};

// The Error for an outcome: `what` names the operation.
Error error_for(int outcome, const char* what);

}  // namespace sluice::net
