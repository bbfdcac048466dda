#include "core/base/thread_pool.hpp"

#include <pthread.h>

namespace sluice {

ThreadPool::ThreadPool(const std::string& name, std::size_t num_threads, std::size_t max_queued)
    : max_queued_(max_queued) {
    for (std::size_t i = 0; i < num_threads; ++i) {
        threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
        ::pthread_setname_np(threads_.back().native_handle(), name.substr(0, 15).c_str());
    }
}

void ThreadPool::stop() {
    {
        const std::lock_guard lock(mu_);
        is_stopped_ = true;
    }
    for (std::jthread& thread : threads_) {
        thread.request_stop();
    }
    threads_.clear();  // joins
}

bool ThreadPool::post(std::function<void()> job) {
    {
        const std::lock_guard lock(mu_);
        if (is_stopped_ || jobs_.size() >= max_queued_) {
            return false;
        }
        jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
    return true;
}

void ThreadPool::run(const std::stop_token& stop) {
    while (true) {
        std::function<void()> job;
        {
            std::unique_lock lock(mu_);
            wake_.wait(lock, stop, [this] { return !jobs_.empty(); });
            if (jobs_.empty()) {
                return;
            }
            job = std::move(jobs_.front());
            jobs_.pop_front();
        }
        job();
    }
}

}  // namespace sluice
