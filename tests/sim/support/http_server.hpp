// A small HTTP/1.1 server that behaves on the wire as uvicorn does: blocking sockets, one thread a
// connection.
//
// Owns:    the listening socket, and the threads and sockets of all connections.
// Threads: accept thread, one a connection; the handler runs on the connection's.
// Errors:  listen() says why it cannot. A connection that fails is closed.
// Limits:  kMaxConnections; further ones wait in the backlog.
// Source:  captures transport-*, abort-*.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "tests/sim/support/exchange.hpp"
#include "tests/sim/support/http_request.hpp"

namespace sluice::sim::http {

class Server {
public:
    using Handler = std::function<void(Request&, Exchange&)>;
    static constexpr std::size_t kMaxConnections = 20'000;
    // uvicorn's --timeout-keep-alive: how long an answered connection may stay idle.
    static constexpr int kIdleMs = 5'000;

    Server(std::string host, std::uint16_t port, Handler handler);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // Binds and starts to accept; the port is then known.
    Status listen();
    std::uint16_t port() const noexcept { return port_; }

private:
    struct Connection {
        std::mutex mu;
        int fd = -1;  // guarded by mu; -1 once closed
        std::atomic<bool> is_done{false};
        std::jthread thread;
    };

    void accept_loop(const std::stop_token& stop);
    void reap();
    void serve(Connection& c, int fd);

    std::string host_;
    std::uint16_t port_;
    Handler handler_;
    int listener_ = -1;
    std::list<std::unique_ptr<Connection>> connections_;  // accept thread only
    std::jthread acceptor_;
};

}  // namespace sluice::sim::http
