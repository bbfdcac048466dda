#include "core/net/task.hpp"

#include "core/base/log.hpp"

namespace sluice::net {
namespace {

void log_escaped(const std::exception_ptr& exception) noexcept {
    try {
        std::rethrow_exception(exception);
    } catch (const std::exception& e) {
        log::error("a task ended with an exception", {{"what", e.what()}});
    } catch (...) {
        log::error("a task ended with an unknown exception");
    }
}

}  // namespace

struct TaskGroup::RootPromise {
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* frame, std::size_t size) noexcept { free_frame(frame, size); }

    RootPromise(TaskGroup& owner, Task<void>& /*task*/) noexcept
        : group(owner), next(owner.first_) {
        if (next != nullptr) {
            next->prev = this;
        }
        group.first_ = this;
        ++group.size_;
    }
    RootPromise(const RootPromise&) = delete;
    RootPromise& operator=(const RootPromise&) = delete;
    ~RootPromise() {
        (prev != nullptr ? prev->next : group.first_) = next;
        if (next != nullptr) {
            next->prev = prev;
        }
        --group.size_;
    }

    Root get_return_object() noexcept;
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }  // the frame frees itself
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { log_escaped(std::current_exception()); }

    TaskGroup& group;
    RootPromise* prev = nullptr;
    RootPromise* next;
};

struct TaskGroup::Root {
    using promise_type = RootPromise;
    std::coroutine_handle<RootPromise> handle;
};

TaskGroup::Root TaskGroup::RootPromise::get_return_object() noexcept {
    return Root{std::coroutine_handle<RootPromise>::from_promise(*this)};
}

TaskGroup::Root TaskGroup::run(TaskGroup& /*group*/, Task<void> task) {
    co_await task;
}

void TaskGroup::spawn(Task<void> task) {
    run(*this, std::move(task)).handle.resume();
}

void TaskGroup::clear() noexcept {
    while (first_ != nullptr) {
        std::coroutine_handle<RootPromise>::from_promise(*first_).destroy();
    }
}

}  // namespace sluice::net
