// A thread's event loop: sockets, timers, coroutines and work posted by other threads.
//
//   auto loop = Loop::create().value();        // or handle the error
//   loop->spawn(serve(*loop));
//   loop->run();                               // this thread is now the loop's
//
// The clock is read once a turn: now_us() is the time of the present wake-up. A task that never has
// to wait is put aside after kInlineOps operations, so that no stream starves the others.
//
// Threads: create() anywhere; run() makes the calling thread the loop's. post(), stop() from any
//          thread; everything else on the loop's thread, or before run() begins.
// Owns:    spawned tasks; those unfinished are destroyed with the loop. Sockets, timers and events
//          must go before it.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/result.hpp"
#include "core/net/buffer.hpp"
#include "core/net/op.hpp"
#include "core/net/socket.hpp"
#include "core/net/task.hpp"
#include "core/net/timer_wheel.hpp"

namespace sluice::net {

enum class Backend { Epoll };

// What a descriptor is when a loop takes it over.
enum class ChannelRole { Connected, Connecting, Listening, Datagram };

class SleepOp final : public Op {
public:
    SleepOp(Loop& loop, const Wait& wait) noexcept : Op(loop, wait) {}
    ~SleepOp() override { retire(); }
    Status await_resume() const;  // ok at the deadline, else Cancelled

private:
    bool try_now() noexcept override { return false; }
    void begin() noexcept override {}
    void withdraw(int outcome) noexcept override { finish(outcome); }
    void abandon() noexcept override {}
};

class Loop {
public:
    static constexpr unsigned kInlineOps = 64;

    static Result<std::unique_ptr<Loop>> create(Backend backend = Backend::Epoll);
    virtual ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    // Runs until stop(). May be called again afterwards.
    void run();
    // Any thread. The present turn is finished.
    void stop() noexcept;
    // Any thread; `job` runs on the loop, in order of posting.
    void post(std::function<void()> job);

    // Starts the task at once.
    void spawn(Task<void> task) { tasks_.spawn(std::move(task)); }
    std::size_t spawned() const noexcept { return tasks_.size(); }

    std::uint64_t now_us() const noexcept { return now_us_; }
    // The deadline this far away; a zero or negative span means no limit.
    std::uint64_t after(std::chrono::microseconds span) const noexcept {
        return span.count() <= 0 ? kNever : now_us_ + static_cast<std::uint64_t>(span.count());
    }
    // Status: ok at the deadline, or Cancelled.
    SleepOp sleep_until(std::uint64_t deadline_us, Cancel* cancel = nullptr) noexcept {
        return {*this, Wait{deadline_us, cancel}};
    }
    TimerWheel& timers() noexcept { return timers_; }
    BufferPool& buffers() noexcept { return buffers_; }
    virtual Backend backend() const noexcept = 0;

protected:
    Loop();

    friend class Op;
    friend class IoOp;
    friend class Socket;
    friend class Listener;
    friend Task<Result<Socket>> connect(Loop&, Address, Wait, Transport);

    // What a back end is asked to do; see Op for the meaning.
    virtual Result<Channel*> open_channel(int fd, ChannelRole role) = 0;
    virtual void close_channel(Channel& channel) noexcept = 0;
    virtual bool try_io(IoOp& op) noexcept = 0;
    virtual void begin_io(IoOp& op) noexcept = 0;
    virtual void withdraw_io(IoOp& op, int outcome) noexcept = 0;
    virtual void abandon_io(IoOp& op) noexcept = 0;
    // Waits at most until `until_us` for something to happen and takes note of it.
    virtual void poll(std::uint64_t until_us) noexcept = 0;
    // Makes a concurrent poll() return. Any thread.
    virtual void wake() noexcept = 0;

    void read_clock() noexcept;
    void run_posted();
    void drop_tasks() noexcept { tasks_.clear(); }

private:
    bool spend_inline_op() noexcept { return inline_left_ != 0 && --inline_left_ != 0; }
    void queue_ready(Op& op) noexcept;
    void unqueue_ready(Op& op) noexcept;
    void run_ready();

    std::uint64_t now_us_ = 0;
    TimerWheel timers_;
    BufferPool buffers_;
    Op* ready_first_ = nullptr;
    Op* ready_last_ = nullptr;
    std::size_t ready_count_ = 0;
    unsigned inline_left_ = kInlineOps;
    std::atomic<bool> stop_{false};

    std::mutex mu_;
    std::vector<std::function<void()>> posted_;  // guarded by mu_
    std::atomic<bool> has_posted_{false};
    TaskGroup tasks_;
};

// Runs the loop until the task is finished, and returns its result or throws what it threw. For
// start-up code and tests.
template <class T>
T run_task(Loop& loop, Task<T> task) {
    std::optional<T> out;
    std::exception_ptr thrown;
    auto body = [](Loop& l, Task<T> inner, std::optional<T>& result,
                   std::exception_ptr& exception) -> Task<void> {
        try {
            result.emplace(co_await inner);
        } catch (...) {
            exception = std::current_exception();
        }
        l.stop();
    };
    loop.spawn(body(loop, std::move(task), out, thrown));
    loop.run();
    if (thrown) {
        std::rethrow_exception(thrown);
    }
    return std::move(*out);
}
inline void run_task(Loop& loop, Task<void> task) {
    auto body = [](Task<void> inner) -> Task<bool> {
        co_await inner;
        co_return true;
    };
    (void)run_task(loop, body(std::move(task)));
}

}  // namespace sluice::net
