// A thread of the data plane: one loop, one server for each VIP:port, one upstream pool.
//
// Threads: owns one ("sluice-worker-N"). Every public function control; none may be called from a
//          worker thread.
// Errors:  open(): Unavailable when the address cannot be bound.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "core/base/result.hpp"
#include "core/flow/shared.hpp"
#include "core/net/loop.hpp"
#include "core/rules/table.hpp"

namespace sluice::flow {

struct WorkerCounts {
    std::uint64_t connections = 0;
    std::uint64_t exchanges = 0;
    std::uint64_t accept_pauses = 0;
};

class Worker {
public:
    Worker(unsigned number, Shared& shared);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    Status start();

    // Requests whose rule is not known yet find theirs in it.
    void set_directory(const std::shared_ptr<const Directory>& directory);
    Status open(const rules::ListenAddress& at, const http::ServerLimits& limits);
    void set_limits(const rules::ListenAddress& at, const http::ServerLimits& limits);
    // Stops listening; connections that are open go on and find the rules that are left.
    void close(const rules::ListenAddress& at);
    // Ends idle connections, lets live exchanges finish.
    void drain();
    // Exchanges that are left end now and say so: a stream with an error event, one that was not
    // answered yet with a 503. They take as long as their clients take to hear it.
    void speak_last_words();
    WorkerCounts counts();
    // Ends what is left and the thread.
    void stop();

private:
    struct Vip;
    struct State;
    // Runs `job` on the loop and waits for it.
    void run(const std::function<void(State&)>& job);

    const unsigned number_;
    Shared& shared_;
    std::unique_ptr<net::Loop> loop_;
    std::unique_ptr<State> state_;  // its loop's, but for start() and stop()
    std::jthread thread_;
};

}  // namespace sluice::flow
