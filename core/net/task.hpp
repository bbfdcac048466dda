// Task<T>: a lazy coroutine awaited by exactly one other. TaskGroup: owner of detached ones.
//
//   Task<Result<int>> half(int n) { co_return n / 2; }
//   auto r = co_await half(4);
//   group.spawn(serve(std::move(socket)));
//
// A task starts when it is awaited. One that finishes without waiting hands its result over without
// growing the stack, at every optimisation level; one that waited resumes its awaiter directly.
//
// Two things g++ 12.2 gets wrong without a word:
//   if (co_await f()) ...       a co_await in the condition of an if, switch or while: the branch
//                               is taken on uninitialised memory. Name the result first:
//                               if (const bool ok = co_await f(); ok) ...
//   co_await g({a, b});         the list's array dies at the suspension. Name the array first.
//
// Threads: the thread of the loop it runs on.
// Owns:    a Task owns its frame; destroying a suspended one ends everything it awaits. A TaskGroup
//          owns the frames of its tasks, and destroys what is unfinished.
// Errors:  an exception that leaves a task reaches the awaiter; out of a spawned task it is logged
//          and the task is over.
#pragma once
#include <cassert>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "core/net/frame_pool.hpp"

namespace sluice::net {

template <class T = void>
class Task;

namespace detail {

class PromiseBase {
public:
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* frame, std::size_t size) noexcept { free_frame(frame, size); }

    std::suspend_always initial_suspend() const noexcept { return {}; }

    struct FinalAwaiter {
        bool await_ready() const noexcept { return false; }
        template <class P>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<P> self) const noexcept {
            PromiseBase& p = self.promise();
            p.done_ = true;
            // While the awaiter is still inside start() it goes on by itself.
            return p.starting_ ? std::noop_coroutine() : p.awaiter_;
        }
        void await_resume() const noexcept {}
    };
    FinalAwaiter final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { exception_ = std::current_exception(); }

    // Runs the task to its first wait; true if it has to be waited for.
    template <class P>
    static bool start(std::coroutine_handle<P> self, std::coroutine_handle<> awaiter) {
        PromiseBase& p = self.promise();
        p.awaiter_ = awaiter;
        p.starting_ = true;
        self.resume();
        p.starting_ = false;
        return !p.done_;
    }

protected:
    void rethrow() const {
        if (exception_) {
            std::rethrow_exception(exception_);
        }
    }

private:
    std::coroutine_handle<> awaiter_;
    std::exception_ptr exception_;
    bool starting_ = false;
    bool done_ = false;
};

template <class T>
class Promise : public PromiseBase {
public:
    Task<T> get_return_object() noexcept;
    template <class U>
        requires std::is_constructible_v<T, U&&>
    void return_value(U&& value) {
        value_.emplace(std::forward<U>(value));
    }
    T take() {
        rethrow();
        return std::move(*value_);
    }

private:
    std::optional<T> value_;
};

template <>
class Promise<void> : public PromiseBase {
public:
    Task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void take() const { rethrow(); }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
public:
    using promise_type = detail::Promise<T>;

    Task() = default;
    explicit Task(std::coroutine_handle<promise_type> self) noexcept : self_(self) {}
    Task(Task&& other) noexcept : self_(std::exchange(other.self_, nullptr)) {}
    Task& operator=(Task&& other) noexcept {
        std::swap(self_, other.self_);
        return *this;
    }
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task() {
        if (self_) {
            self_.destroy();
        }
    }

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> awaiter) {
        return promise_type::start(self_, awaiter);
    }
    T await_resume() { return self_.promise().take(); }

private:
    std::coroutine_handle<promise_type> self_;
};

namespace detail {

template <class T>
Task<T> Promise<T>::get_return_object() noexcept {
    return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
    return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

}  // namespace detail

class TaskGroup {
public:
    TaskGroup() = default;
    TaskGroup(const TaskGroup&) = delete;
    TaskGroup& operator=(const TaskGroup&) = delete;
    // Destroys what has not finished. Never called from one of the group's own tasks.
    ~TaskGroup() { clear(); }

    // Starts the task at once and lets it run on its own.
    void spawn(Task<void> task);
    void clear() noexcept;
    std::size_t size() const noexcept { return size_; }

private:
    struct Root;
    struct RootPromise;
    static Root run(TaskGroup& group, Task<void> task);

    RootPromise* first_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace sluice::net
