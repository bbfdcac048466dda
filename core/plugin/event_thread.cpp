#include "core/plugin/event_thread.hpp"

#include <pthread.h>

#include <condition_variable>
#include <mutex>

#include "core/net/loop.hpp"

namespace sluice::plugin {

struct EventThread::State {
    std::unique_ptr<net::Loop> loop;
    std::jthread thread;
    std::atomic<std::thread::id> id{};
    std::mutex mu;
    bool is_running = false;  // guarded by mu
};

EventThread::EventThread() : state_(std::make_shared<State>()) {}

EventThread::~EventThread() {
    stop();
}

Status EventThread::start() {
    State& s = *state_;
    auto loop = net::Loop::create();
    if (!loop) {
        return std::move(loop).error().at("event thread");
    }
    s.loop = std::move(loop).value();
    {
        const std::lock_guard lock(s.mu);
        s.is_running = true;
    }
    s.thread = std::jthread([&s] {
        s.id.store(std::this_thread::get_id());
        s.loop->run();
        s.id.store(std::thread::id());
    });
    ::pthread_setname_np(s.thread.native_handle(), "sluice-event");
    return {};
}

void EventThread::stop() {
    State& s = *state_;
    {
        const std::lock_guard lock(s.mu);
        if (!s.is_running) {
            return;
        }
        s.is_running = false;
        // Behind everything posted so far.
        s.loop->post([&s] { s.loop->stop(); });
    }
    s.thread.join();
    s.loop.reset();
}

bool EventThread::is_current() const noexcept {
    return state_->id.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

bool EventThread::post(std::function<void()> fn) {
    State& s = *state_;
    const std::lock_guard lock(s.mu);
    if (!s.is_running) {
        return false;
    }
    s.loop->post(std::move(fn));
    return true;
}

void EventThread::post_or_run(std::function<void()> fn) {
    State& s = *state_;
    {
        const std::lock_guard lock(s.mu);
        if (s.is_running) {
            s.loop->post(std::move(fn));
            return;
        }
    }
    fn();
}

bool EventThread::is_running() const {
    const std::lock_guard lock(state_->mu);
    return state_->is_running;
}

Status EventThread::run(std::function<void()> fn, std::chrono::milliseconds limit) {
    if (is_current()) {
        fn();
        return {};
    }
    struct Call {
        std::function<void()> fn;
        std::mutex mu;
        std::condition_variable done_cv;
        bool is_done = false;
    };
    auto call = std::make_shared<Call>();
    call->fn = std::move(fn);
    const bool is_posted = post([call] {
        call->fn();
        call->fn = nullptr;
        const std::lock_guard lock(call->mu);
        call->is_done = true;
        call->done_cv.notify_all();
    });
    if (!is_posted) {
        call->fn();
        return {};
    }
    std::unique_lock lock(call->mu);
    if (!call->done_cv.wait_for(lock, limit, [&] { return call->is_done; })) {
        return Error{Code::Timeout, "the event thread did not answer"};
    }
    return {};
}

net::Loop& EventThread::loop() noexcept {
    return *state_->loop;
}

}  // namespace sluice::plugin
