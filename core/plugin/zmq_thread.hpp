// The thread that owns every ZeroMQ socket of every plugin instance.
//
// Threads: owns one, named "sluice-zmq". start() and stop() control; open() and remove() event;
//          wake() any.
// Errors:  open() says what is wrong with an address; a peer that is not there is no error, the
//          link is down until it is.
// Limits:  1 to 256 messages of one socket, then the next one has its turn.
// Source:  libzmq 4.3: socket monitor protocol of zmq_socket_monitor(3), event HANDSHAKE_SUCCEEDED
//          for up, DISCONNECTED for down.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "core/base/result.hpp"
#include "core/plugin/zmq_link.hpp"

namespace sluice::plugin {

class ZmqThread {
public:
    explicit ZmqThread(EventThread& events);
    ~ZmqThread();
    ZmqThread(const ZmqThread&) = delete;
    ZmqThread& operator=(const ZmqThread&) = delete;

    Status start();
    void stop();

    Result<std::shared_ptr<ZmqLink>> open(ZmqSpec spec, ZmqHandler handler);
    void remove(std::shared_ptr<ZmqLink> link);
    void wake() noexcept;

private:
    struct Slot {
        Slot() = default;
        ~Slot();
        Slot(const Slot&) = delete;
        Slot& operator=(const Slot&) = delete;

        std::shared_ptr<ZmqLink> link;
        zmq::socket_t socket;
        zmq::socket_t monitor;
    };

    void run(const std::stop_token& stop);
    void take_changes();
    static void read_monitor(Slot& slot);
    static void receive(Slot& slot);
    static void send(Slot& slot);

    EventThread& events_;
    std::unique_ptr<zmq::context_t> context_;
    int wake_fd_ = -1;
    std::atomic<std::uint64_t> next_monitor_{1};
    std::vector<std::unique_ptr<Slot>> slots_;  // ZMQ thread

    std::mutex mu_;
    std::vector<std::unique_ptr<Slot>> added_;       // guarded by mu_
    std::vector<std::shared_ptr<ZmqLink>> removed_;  // guarded by mu_
    bool is_running_ = false;                        // guarded by mu_
    std::jthread thread_;
};

}  // namespace sluice::plugin
