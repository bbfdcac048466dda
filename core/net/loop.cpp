#include "core/net/loop.hpp"

#include "core/base/clock.hpp"
#include "core/net/epoll_loop.hpp"

namespace sluice::net {

Status SleepOp::await_resume() const {
    if (outcome() == kTimedOut) {
        return {};
    }
    return error("sleep");
}

Result<std::unique_ptr<Loop>> Loop::create(Backend backend) {
    switch (backend) {
        case Backend::Epoll:
            return EpollLoop::create();
    }
    return Error{Code::Unsupported, "no such I/O back end"};
}

Loop::Loop() : now_us_(::sluice::now_us()), timers_(now_us_) {}

Loop::~Loop() = default;

void Loop::read_clock() noexcept {
    now_us_ = ::sluice::now_us();
}

void Loop::run() {
    read_clock();
    while (!stop_.load(std::memory_order_acquire)) {
        const bool is_busy = ready_first_ != nullptr || has_posted_.load(std::memory_order_acquire);
        poll(is_busy ? 0 : timers_.next_us());
        if (has_posted_.load(std::memory_order_acquire)) {
            run_posted();
        }
        timers_.advance(now_us_);
        run_ready();
    }
    stop_.store(false, std::memory_order_release);
}

void Loop::stop() noexcept {
    stop_.store(true, std::memory_order_release);
    wake();
}

void Loop::post(std::function<void()> job) {
    {
        const std::lock_guard lock(mu_);
        posted_.push_back(std::move(job));
    }
    if (!has_posted_.exchange(true, std::memory_order_acq_rel)) {
        wake();
    }
}

void Loop::run_posted() {
    std::vector<std::function<void()>> jobs;
    // Before the jobs are taken, and not to be moved behind it: who posts later must see it.
    has_posted_.exchange(false, std::memory_order_acq_rel);
    {
        const std::lock_guard lock(mu_);
        jobs.swap(posted_);
    }
    for (const auto& job : jobs) {
        inline_left_ = kInlineOps;
        job();
    }
}

void Loop::queue_ready(Op& op) noexcept {
    op.ready_next_ = nullptr;
    op.ready_prev_ = ready_last_;
    (ready_last_ != nullptr ? ready_last_->ready_next_ : ready_first_) = &op;
    ready_last_ = &op;
    ++ready_count_;
}

void Loop::unqueue_ready(Op& op) noexcept {
    (op.ready_prev_ != nullptr ? op.ready_prev_->ready_next_ : ready_first_) = op.ready_next_;
    (op.ready_next_ != nullptr ? op.ready_next_->ready_prev_ : ready_last_) = op.ready_prev_;
    --ready_count_;
}

void Loop::run_ready() {
    // Those queued meanwhile wait for the next turn, after a look at the descriptors.
    for (std::size_t left = ready_count_; left != 0 && ready_first_ != nullptr; --left) {
        Op& op = *ready_first_;
        unqueue_ready(op);
        op.state_ = Op::State::Done;
        inline_left_ = kInlineOps;
        op.waiter_.resume();
    }
}

}  // namespace sluice::net
