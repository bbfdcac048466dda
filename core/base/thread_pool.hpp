// A few threads that run jobs too long for an event loop: tokenizing large texts, loading models.
//
// Threads: post() any; jobs run on threads named after the pool.
// Limits:  max_queued jobs wait; further ones are refused, so a flood cannot hold memory.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice {

class ThreadPool {
public:
    ThreadPool(const std::string& name, std::size_t num_threads, std::size_t max_queued);
    ~ThreadPool() { stop(); }
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    // Runs what is queued, then ends the threads; later posts are refused. Idempotent, control.
    void stop();
    // False when the queue is full or the pool stopped; the job is dropped then.
    [[nodiscard]] bool post(std::function<void()> job);

private:
    void run(const std::stop_token& stop);

    const std::size_t max_queued_;
    std::mutex mu_;
    std::condition_variable_any wake_;
    std::deque<std::function<void()>> jobs_;  // guarded by mu_
    bool is_stopped_ = false;                 // guarded by mu_
    std::vector<std::jthread> threads_;
};

}  // namespace sluice
