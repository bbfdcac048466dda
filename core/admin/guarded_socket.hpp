// A listening socket whose connections have deadlines: a client that sends a byte now and then, or
// never reads its answer, does not keep a thread. It knows who is connected, so that one address
// cannot take every place.
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

namespace sluice::admin {

// The descriptors of the live connections, and whose they are.
class Connections {
public:
    // Addresses of one IPv6 /64 count as one.
    void add(int fd, const std::string& address);
    void remove(int fd);
    // Ends them for both directions; their threads notice at once.
    void shut_down_all();
    std::size_t size() const;
    std::size_t of_address(const std::string& address) const;

private:
    mutable std::mutex mu_;
    std::map<int, std::string> peers_;           // guarded by mu_
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
