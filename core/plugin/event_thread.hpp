// The one thread on which plugin callbacks and timers run, with a network loop of its own.
//
// Threads: owns one, named "sluice-event". start() and stop() control; the rest any.
// Errors:  after stop() nothing is accepted; work already posted has run or was dropped.
// Limits:  none on posts from the gateway itself; each instance has its own bound.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "core/base/result.hpp"

namespace sluice::net {
class Loop;
}

namespace sluice::plugin {

class EventThread {
public:
    EventThread();
    ~EventThread();
    EventThread(const EventThread&) = delete;
    EventThread& operator=(const EventThread&) = delete;

    Status start();
    // Runs what was posted before, then ends the thread. Idempotent.
    void stop();

    bool is_current() const noexcept;
    bool is_running() const;
    // Runs fn there, FIFO per posting thread. False when the thread does not run.
    bool post(std::function<void()> fn);
    // Runs fn there and waits; inline when called on the thread or when it does not run. Timeout:
    // fn may still run later, so it owns what it touches.
    Status run(std::function<void()> fn,
               std::chrono::milliseconds limit = std::chrono::seconds(10));

    // Runs fn there without waiting; at once when the thread does not run (any more).
    void post_or_run(std::function<void()> fn);

    // Valid between start() and stop(); used on the thread only.
    net::Loop& loop() noexcept;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace sluice::plugin
