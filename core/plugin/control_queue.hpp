// A thread for the control work that falls due when the last user of something is gone: release,
// deactivate, destroy.
//
// Threads: owns one, named "sluice-control". post() any.
// Errors:  after stop() a job runs at once on the thread that posts it.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace sluice::plugin {

class ControlQueue {
public:
    ControlQueue() = default;
    ~ControlQueue() { stop(); }
    ControlQueue(const ControlQueue&) = delete;
    ControlQueue& operator=(const ControlQueue&) = delete;

    void start();
    // Runs what was posted before and what that posts, then ends the thread. Idempotent.
    void stop();
    void post(std::function<void()> job);
    // Waits, within a bound, until every job posted before is over. Not from a job.
    void wait_idle();
    // True on the queue's own thread.
    bool is_current() const noexcept;

private:
    void run(const std::stop_token& stop);

    std::mutex mu_;
    std::condition_variable_any wake_;
    std::deque<std::function<void()>> jobs_;  // guarded by mu_
    bool is_running_ = false;                 // guarded by mu_
    std::jthread thread_;
};

}  // namespace sluice::plugin
