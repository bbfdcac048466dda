#include "core/plugin/control_queue.hpp"

#include <pthread.h>

#include <chrono>
#include <future>
#include <memory>

#include "core/base/log.hpp"

namespace sluice::plugin {
namespace {

constexpr std::chrono::seconds kIdleLimit{60};

}  // namespace

void ControlQueue::start() {
    const std::lock_guard lock(mu_);
    if (is_running_) {
        return;
    }
    is_running_ = true;
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    ::pthread_setname_np(thread_.native_handle(), "sluice-control");
}

void ControlQueue::stop() {
    if (thread_.joinable()) {
        thread_.request_stop();
        thread_.join();
    }
}

void ControlQueue::post(std::function<void()> job) {
    {
        const std::lock_guard lock(mu_);
        if (is_running_) {
            jobs_.push_back(std::move(job));
            wake_.notify_one();
            return;
        }
    }
    job();
}

void ControlQueue::wait_idle() {
    auto done = std::make_shared<std::promise<void>>();
    const auto future = done->get_future();
    post([done] { done->set_value(); });
    if (future.wait_for(kIdleLimit) != std::future_status::ready) {
        log::error("plugin teardown takes too long");
    }
}

bool ControlQueue::is_current() const noexcept {
    return thread_.get_id() == std::this_thread::get_id();
}

void ControlQueue::run(const std::stop_token& stop) {
    for (;;) {
        std::function<void()> job;
        {
            std::unique_lock lock(mu_);
            wake_.wait(lock, stop, [this] { return !jobs_.empty(); });
            if (jobs_.empty()) {
                is_running_ = false;
                return;
            }
            job = std::move(jobs_.front());
            jobs_.pop_front();
        }
        job();
    }
}

}  // namespace sluice::plugin
