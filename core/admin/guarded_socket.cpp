#include "core/admin/guarded_socket.hpp"

#include <Poco/Exception.h>
#include <Poco/Net/NetException.h>
#include <Poco/Net/ServerSocketImpl.h>
#include <Poco/Net/StreamSocketImpl.h>
#include <sys/socket.h>

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

// The holder of an IPv6 network has 2^64 addresses.
std::string party(const std::string& address) {
    if (address.find(':') == std::string::npos) {
        return address;
    }
    return rules::ipv6_network(address).value_or(address);
}

class GuardedConnection final : public Poco::Net::StreamSocketImpl {
public:
    GuardedConnection(poco_socket_t fd, const std::string& address,
                      std::shared_ptr<Connections> connections, SocketLimits limits)
        : StreamSocketImpl(fd), connections_(std::move(connections)), limits_(limits) {
        connections_->add(fd, address);
    }

    int receiveBytes(void* buffer, int length, int flags) override {
        // From the first read on: what waits for a thread takes none.
        if (receive_by_us_ == 0) {
            receive_by_us_ = now_us() + limits_.request_us;
        }
        wait(receive_by_us_, SELECT_READ);
        return StreamSocketImpl::receiveBytes(buffer, length, flags);
    }

    int sendBytes(const void* buffer, int length, int flags) override {
        if (send_by_us_ == 0) {
            send_by_us_ = now_us() + limits_.request_us;
        }
        const char* at = static_cast<const char*>(buffer);
        int left = length;
        while (left > 0) {
            wait(send_by_us_, SELECT_WRITE);
            // Never blocks: what does not fit waits above, under the deadline.
            const int sent = SocketImpl::sendBytes(at, left, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
            at += sent;
            left -= sent;
        }
        return length;
    }

    void close() override {
        if (initialized()) {
            connections_->remove(sockfd());
        }
        StreamSocketImpl::close();
    }

protected:
    // Also when it is closed already: the lock inside comes after the one of leave().
    ~GuardedConnection() override { connections_->remove(sockfd()); }

private:
    void wait(std::uint64_t by_us, int mode) {
        const std::uint64_t now = now_us();
        const std::uint64_t left = by_us > now ? std::min(by_us - now, limits_.pause_us) : 0;
        const auto is_ready_in = [&](std::uint64_t us) {
            return poll(Poco::Timespan(static_cast<Poco::Timespan::TimeDiff>(us)), mode);
        };
        if (left != 0 && is_ready_in(0)) {
            return;
        }
        connections_->set_waiting(sockfd(), true);
        const bool is_ready = left != 0 && is_ready_in(left);
        connections_->set_waiting(sockfd(), false);
        if (!is_ready) {
            throw Poco::TimeoutException();
        }
    }

    const std::shared_ptr<Connections> connections_;
    const SocketLimits limits_;
    std::uint64_t receive_by_us_ = 0;
    std::uint64_t send_by_us_ = 0;
};

class GuardedListener final : public Poco::Net::ServerSocketImpl {
public:
    GuardedListener(std::shared_ptr<Connections> connections, SocketLimits limits)
        : connections_(std::move(connections)), limits_(limits) {}

    Poco::Net::SocketImpl* acceptConnection(Poco::Net::SocketAddress& client) override {
        sockaddr_storage address{};
        socklen_t size = sizeof address;
        int fd = -1;
        do {
            fd = ::accept4(sockfd(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC);
        } while (fd < 0 && errno == EINTR);
        if (fd < 0) {
            error();  // throws what Poco's loop expects
        }
        client = Poco::Net::SocketAddress(reinterpret_cast<const sockaddr*>(&address), size);
        return new GuardedConnection(fd, client.host().toString(), connections_,
                                     limits_);  // Poco counts references
    }

private:
    const std::shared_ptr<Connections> connections_;
    const SocketLimits limits_;
};

}  // namespace

void Connections::add(int fd, const std::string& address) {
    const std::string who = party(address);
    const std::lock_guard lock(mu_);
    peers_[fd] = {who, next_number_++, false, false};
    ++counts_[who];
    make_room();
}

void Connections::set_waiting(int fd, bool is_waiting) {
    const std::lock_guard lock(mu_);
    const auto it = peers_.find(fd);
    if (it == peers_.end()) {
        return;
    }
    it->second.is_waiting = is_waiting;
    if (is_waiting) {
        make_room();
    }
}

void Connections::set_apart(int fd, bool is_apart) {
    const std::lock_guard lock(mu_);
    const auto it = peers_.find(fd);
    if (it != peers_.end() && it->second.is_apart != is_apart) {
        it->second.is_apart = is_apart;
        apart_ = is_apart ? apart_ + 1 : apart_ - 1;
    }
}

void Connections::make_room() {
    if (peers_.size() - apart_ <= places_) {
        return;
    }
    auto slowest = peers_.end();
    for (auto it = peers_.begin(); it != peers_.end(); ++it) {
        if (it->second.is_waiting && !it->second.is_apart &&
            (slowest == peers_.end() || it->second.number < slowest->second.number)) {
            slowest = it;
        }
    }
    if (slowest != peers_.end()) {
        slowest->second.is_waiting = false;
        ::shutdown(slowest->first, SHUT_RDWR);
        ended_.add();
    }
}

void Connections::remove(int fd) {
    const std::lock_guard lock(mu_);
    const auto it = peers_.find(fd);
    if (it == peers_.end()) {
        return;
    }
    const auto count = counts_.find(it->second.who);
    if (--count->second == 0) {
        counts_.erase(count);
    }
    apart_ -= it->second.is_apart ? 1 : 0;
    peers_.erase(it);
}

void Connections::leave() {
    const std::lock_guard lock(mu_);
}

void Connections::shut_down_all() {
    const std::lock_guard lock(mu_);
    for (const auto& [fd, peer] : peers_) {
        ::shutdown(fd, SHUT_RDWR);
    }
}

std::size_t Connections::size() const {
    const std::lock_guard lock(mu_);
    return peers_.size();
}

std::size_t Connections::of_address(const std::string& address) const {
    const std::string who = party(address);
    const std::lock_guard lock(mu_);
    const auto it = counts_.find(who);
    return it == counts_.end() ? 0 : it->second;
}

GuardedServerSocket::GuardedServerSocket(std::shared_ptr<Connections> connections,
                                         SocketLimits limits)
    : ServerSocket(new GuardedListener(std::move(connections), limits), true) {}

}  // namespace sluice::admin
