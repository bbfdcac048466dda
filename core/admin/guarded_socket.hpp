// A listening socket whose connections have deadlines: a client that sends a byte now and then, or
// never reads its answer, does not keep a thread. It knows who is connected, so that one address
// cannot take every place, and who waits for its client, so that many slow ones together cannot
// either.
//
// Threads: any. Connections belong to the server's pool threads; shut_down_all() is any.
// Owns:    nothing of the connections: they are known while they live.
// Limits:  `request_us` for a whole request to arrive, and again for its answer to be taken;
// `pause_us` between two bytes.
#pragma once
#include <Poco/Net/ServerSocket.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/base/metrics.hpp"

namespace sluice::admin {

// The descriptors of the live connections, and whose they are. Where there are more than `places`,
// some wait for a thread: then the oldest connection that keeps its thread waiting is ended for
// each one that comes or begins to wait.
class Connections {
public:
    explicit Connections(std::size_t places) : places_(places) {}
    // Addresses of one IPv6 /64 count as one.
    void add(int fd, const std::string& address);
    void remove(int fd);
    // Whether its thread waits for the client to send or to take something.
    void set_waiting(int fd, bool is_waiting);
    // Whether it takes no thread of the pool: an event stream.
    void set_apart(int fd, bool is_apart);
    // The last word of a connection's thread: what it did to its socket comes before the socket's
    // end in another thread. Poco's reference count orders them, too, but race detectors do not see
    // it.
    void leave();
    // Ends them for both directions; their threads notice at once.
    void shut_down_all();
    std::size_t size() const;
    std::size_t of_address(const std::string& address) const;

private:
    struct Peer {
        std::string who;
        std::uint64_t number = 0;  // in the order of arrival
        bool is_waiting = false;
        bool is_apart = false;
    };
    void make_room();  // under mu_

    const std::size_t places_;
    metrics::Counter& ended_ = metrics::registry().counter(
        "sluice_api_connections_ended_total",
        "Management connections ended, the oldest slow one first, because no thread was free.");
    mutable std::mutex mu_;
    std::uint64_t next_number_ = 0;              // guarded by mu_
    std::map<int, Peer> peers_;                  // guarded by mu_
    std::size_t apart_ = 0;                      // guarded by mu_; of peers_
    std::map<std::string, std::size_t> counts_;  // guarded by mu_
};

struct SocketLimits {
    std::uint64_t request_us = 30'000'000;
    std::uint64_t pause_us = 10'000'000;
};

// Poco copies server sockets by value, so the behaviour sits in the shared implementation.
class GuardedServerSocket : public Poco::Net::ServerSocket {
public:
    GuardedServerSocket(std::shared_ptr<Connections> connections, SocketLimits limits);
};

}  // namespace sluice::admin
