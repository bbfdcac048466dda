// Runs a job on the compute pool while the loop goes on.
//
// Threads: awaited on a loop; the job runs on a pool thread.
// Owns:    the job and its result are kept until the job has run, also when the awaiting task is
//          destroyed meanwhile; so a job must own, not borrow, whatever may go with the task.
// Errors:  Unavailable when the pool's queue is full, Cancelled when the client left first.
#pragma once
#include <memory>
#include <utility>

#include "core/base/thread_pool.hpp"
#include "core/net/event.hpp"
#include "core/net/loop.hpp"

namespace sluice::flow {

namespace detail {

// Shared by the waiting task and the job; `waiter` is used on the loop only.
struct Handover {
    net::Event* waiter = nullptr;
    bool is_done = false;
};

}  // namespace detail

// `job` is a callable without arguments that keeps its result where the caller can find it (a
// shared object it owns).
template <class Job>
net::Task<Status> offload(net::Loop& loop, ThreadPool& pool, Job job, net::Cancel* cancel) {
    auto handover = std::make_shared<detail::Handover>();
    net::Event done(loop);
    struct Leave {
        detail::Handover& h;
        ~Leave() { h.waiter = nullptr; }
    };
    handover->waiter = &done;
    const Leave leave{*handover};
    const bool is_queued = pool.post([&loop, handover, job = std::move(job)]() mutable {
        job();
        loop.post([handover] {
            handover->is_done = true;
            if (handover->waiter != nullptr) {
                handover->waiter->set();
            }
        });
    });
    if (!is_queued) {
        co_return Error{Code::Unavailable, "the compute queue is full"};
    }
    const net::Wait wait{net::kNever, cancel};
    Status finished = co_await done.wait(wait);
    co_return finished;
}

}  // namespace sluice::flow
