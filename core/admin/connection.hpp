// One connection of the management interface: one request, one answer, the end.
//
// Heads and bodies are read by the parser of the data plane, which refuses what two readers could
// understand differently; whatever is refused is answered in the interface's own shape.
//
// Threads: of Poco's pool; a connection keeps its thread.
// Errors:  400, 408, 411, 413, 417, 431, 501, 505 before a route is looked for.
// Limits:  ConnectionLimits; the socket's deadlines (guarded_socket.hpp).
// Source:  RFC 9112; the management contract's error body.
#pragma once
#include <Poco/Net/TCPServerConnectionFactory.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "core/admin/api.hpp"
#include "core/admin/guarded_socket.hpp"
#include "core/admin/streams.hpp"

namespace sluice::admin {

struct ConnectionLimits {
    std::size_t max_head_bytes = 32U << 10U;
    std::size_t max_fields = 100;
    std::size_t max_body_bytes = 1U << 20U;
};

// Requests being answered; stop() waits for them.
class Running {
public:
    void enter();
    void leave();
    // A document larger than other bodies takes many times its room while it is read: one at a
    // time. False: there is one already.
    bool enter_document() noexcept { return !has_document_.exchange(true); }
    void leave_document() noexcept { has_document_ = false; }
    void wait_idle(std::chrono::milliseconds at_most);

private:
    std::mutex mu_;
    std::condition_variable idle_;
    int count_ = 0;  // guarded by mu_
    std::atomic<bool> has_document_{false};
};

class ConnectionFactory final : public Poco::Net::TCPServerConnectionFactory {
public:
    // All must outlive the connections.
    ConnectionFactory(Api& api, Running& running, Streams& streams, Connections& connections,
                      ConnectionLimits limits)
        : api_(api),
          running_(running),
          streams_(streams),
          connections_(connections),
          limits_(limits) {}

    Poco::Net::TCPServerConnection* createConnection(
        const Poco::Net::StreamSocket& socket) override;

private:
    Api& api_;
    Running& running_;
    Streams& streams_;
    Connections& connections_;
    const ConnectionLimits limits_;
};

}  // namespace sluice::admin
