// Lets tasks of one loop wait for another of them: a flag with waiters.
//
//   Event done(loop);
//   loop.spawn(leg(done));             // ... done.set() at its end
//   co_await done.wait({.deadline_us = loop.after(5s), .cancel = &client_left});
//
// To wait for another thread: pass a pointer to the loop along, and `loop.post([&] { done.set();
// })` there; the event must live until that ran.
//
// Threads: its loop's.
// Owns:    nothing; it must outlive its waiters.
#pragma once
#include "core/net/op.hpp"

namespace sluice::net {

class Event {
public:
    class WaitOp;

    explicit Event(Loop& loop) noexcept : loop_(loop) {}
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event();

    bool is_set() const noexcept { return set_; }
    // Wakes all waiters; whoever waits later goes on at once, until reset().
    void set() noexcept;
    void reset() noexcept { set_ = false; }
    // Status: ok once set, else Timeout or Cancelled.
    WaitOp wait(const Wait& wait = {}) noexcept;

private:
    Loop& loop_;
    WaitOp* first_ = nullptr;
    bool set_ = false;
};

class Event::WaitOp final : public Op {
public:
    WaitOp(Event& event, Loop& loop, const Wait& wait) noexcept : Op(loop, wait), event_(event) {}
    ~WaitOp() override { retire(); }
    Status await_resume() const;

private:
    friend class Event;
    bool try_now() noexcept override { return event_.set_; }
    void begin() noexcept override;
    void withdraw(int outcome) noexcept override;
    void abandon() noexcept override { unlink(); }
    void unlink() noexcept;

    Event& event_;
    WaitOp* prev_ = nullptr;
    WaitOp* next_ = nullptr;
};

inline Event::WaitOp Event::wait(const Wait& wait) noexcept {
    return WaitOp(*this, loop_, wait);
}

}  // namespace sluice::net
