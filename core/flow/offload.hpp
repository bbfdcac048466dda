// A job that runs on the compute pool while its loop goes on.
//
//   Offload load(loop, pool, [found, &library] { found->model = library.find(...); });
//   const Status done = co_await load.done(wait);
//
// Threads: made and awaited on a loop; the job runs on a pool thread.
// Owns:    nothing of the job: it is kept until it has run, also when the Offload is destroyed
//          before; so a job must own, not borrow, whatever may go with the request.
// Errors:  done(): Unavailable when the pool's queue is full, Cancelled or Timeout as waited for.
#pragma once
#include <functional>
#include <memory>
#include <utility>

#include "core/base/thread_pool.hpp"
#include "core/net/event.hpp"
#include "core/net/loop.hpp"

namespace sluice::flow {

class Offload {
public:
    Offload(net::Loop& loop, ThreadPool& pool, std::function<void()> job)
        : ended_(loop), waiter_(std::make_shared<Waiter>()) {
        waiter_->ended = &ended_;
        is_queued_ = pool.post([&loop, waiter = waiter_, job = std::move(job)] {
            job();
            loop.post([waiter] {
                if (waiter->ended != nullptr) {
                    waiter->ended->set();
                }
            });
        });
    }
    ~Offload() { waiter_->ended = nullptr; }
    Offload(const Offload&) = delete;
    Offload& operator=(const Offload&) = delete;

    net::Task<Status> done(net::Wait wait) {
        if (!is_queued_) {
            co_return Error{Code::Unavailable, "the compute queue is full"};
        }
        Status ended = co_await ended_.wait(wait);
        co_return ended;
    }

private:
    // Shared with the job; used on the loop only.
    struct Waiter {
        net::Event* ended = nullptr;
    };
    net::Event ended_;
    std::shared_ptr<Waiter> waiter_;
    bool is_queued_ = false;
};

}  // namespace sluice::flow
