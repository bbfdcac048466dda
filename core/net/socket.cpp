#include "core/net/socket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "core/net/channel.hpp"
#include "core/net/loop.hpp"

namespace sluice::net {
namespace {

void set_option(int fd, int level, int name, int value = 1) noexcept {
    // Best effort: a socket without the option works, only slower.
    (void)::setsockopt(fd, level, name, &value, sizeof value);
}

// Finds out within about a minute that a peer vanished without a word. Best effort as well.
void set_keepalive(int fd) noexcept {
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

int open_stream(const Address& address, int protocol = IPPROTO_TCP) noexcept {
    return ::socket(address.is_v6() ? AF_INET6 : AF_INET,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
}

class ConnectOp final : public IoOp {
public:
    ConnectOp(Loop& loop, Channel* channel, const Wait& wait) noexcept
        : IoOp(Kind::Connect, loop, channel, wait) {}
    ~ConnectOp() override { retire(); }
    Result<std::size_t> await_resume() const { return result("connect"); }
};

class AcceptOp final : public IoOp {
public:
    AcceptOp(Loop& loop, Channel* channel, const Wait& wait) noexcept
        : IoOp(Kind::Accept, loop, channel, wait,
               std::span<char>(reinterpret_cast<char*>(&name_), sizeof name_)) {
        set_outcome(kCancelled);  // until there is a descriptor
    }
    ~AcceptOp() override {
        retire();
        if (!taken_ && outcome() == 0) {
            ::close(static_cast<int>(moved()));  // accepted, but the awaiter went away
        }
    }
    // The errno, or 0 and the descriptor.
    std::pair<int, int> await_resume() noexcept {
        taken_ = true;
        return {outcome(), static_cast<int>(moved())};
    }
    Address peer() const noexcept { return Address::from_sockaddr(name_); }

private:
    sockaddr_storage name_{};
    bool taken_ = false;
};

}  // namespace

// -- operations

bool IoOp::try_now() noexcept {
    return loop().try_io(*this);
}
void IoOp::begin() noexcept {
    loop().begin_io(*this);
}
void IoOp::withdraw(int outcome) noexcept {
    loop().withdraw_io(*this, outcome);
}
void IoOp::abandon() noexcept {
    loop().abandon_io(*this);
}

Result<std::size_t> IoOp::result(const char* what) const {
    if (outcome() == 0) {
        return moved_;
    }
    return error(what);
}

RecvOp::RecvOp(Loop& loop, Channel* channel, std::span<char> into, const Wait& wait) noexcept
    : IoOp(Kind::Recv, loop, channel, wait, into, {}) {}

SendOp::SendOp(Loop& loop, Channel* channel, std::span<iovec> parts, const Wait& wait,
               bool until_readable) noexcept
    : IoOp(Kind::Send, loop, channel, wait, {}, parts, until_readable) {}

Status ReadableOp::await_resume() const {
    if (outcome() == 0) {
        return {};
    }
    return error("wait for data");
}

// -- Socket

Result<Socket> Socket::adopt(Loop& loop, int fd, ChannelRole role) {
    auto channel = loop.open_channel(fd, role);
    if (!channel.ok()) {
        ::close(fd);
        return std::move(channel).error();
    }
    return Socket(loop, *channel.value());
}

Result<Socket> Socket::adopt(Loop& loop, int fd) {
    return adopt(loop, fd, ChannelRole::Connected);
}

Result<Socket> Socket::adopt_datagram(Loop& loop, int fd) {
    return adopt(loop, fd, ChannelRole::Datagram);
}

void Socket::close() noexcept {
    if (Channel* channel = std::exchange(channel_, nullptr); channel != nullptr) {
        loop_->close_channel(*channel);
    }
}

void Socket::close_reset() noexcept {
    if (channel_ != nullptr) {
        const linger at_once{1, 0};
        (void)::setsockopt(channel_->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close();
    }
}

void Socket::shutdown_send() noexcept {
    if (channel_ != nullptr) {
        (void)::shutdown(channel_->fd, SHUT_WR);  // fails only when there is nothing left to end
    }
}

RecvOp Socket::recv(std::span<char> into, const Wait& wait) noexcept {
    return RecvOp(*loop_, channel_, into, wait);
}

SendOp Socket::send(std::span<iovec> parts, const Wait& wait, bool until_readable) noexcept {
    return SendOp(*loop_, channel_, parts, wait, until_readable);
}

ReadableOp Socket::readable(const Wait& wait) noexcept {
    return ReadableOp(*loop_, channel_, wait);
}

Result<std::size_t> Socket::recv_now(std::span<char> into) noexcept {
    RecvOp op(*loop_, channel_, into, {});
    if (loop_->try_io(op)) {
        return op.await_resume();
    }
    return Error{Code::Unavailable, "receive: nothing there"};
}

Result<std::size_t> Socket::send_now(std::span<iovec> parts) noexcept {
    SendOp op(*loop_, channel_, parts, {}, false);
    if (loop_->try_io(op) || op.moved_ != 0) {
        return op.await_resume();
    }
    return Error{Code::Unavailable, "send: no room"};
}

void Socket::watch(SocketWatcher* watcher) noexcept {
    if (channel_ == nullptr) {
        return;
    }
    channel_->watcher = watcher;
    if (watcher != nullptr && channel_->hung_up) {
        watcher->on_hangup();
    }
}

bool Socket::is_hung_up() const noexcept {
    return channel_ == nullptr || channel_->hung_up;
}

bool Socket::is_readable() const noexcept {
    return channel_ != nullptr && channel_->readable;
}

int Socket::fd() const noexcept {
    return channel_ != nullptr ? channel_->fd : -1;
}

Address Socket::local() const noexcept {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    if (::getsockname(fd(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
        return {};
    }
    return Address::from_sockaddr(name);
}

Address Socket::peer() const noexcept {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    if (::getpeername(fd(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
        return {};
    }
    return Address::from_sockaddr(name);
}

// -- connect

Task<Result<Socket>> connect(Loop& loop, Address to, Wait wait, Transport transport) {
    const bool is_tcp = transport == Transport::Tcp;
    const int fd = open_stream(to, is_tcp ? IPPROTO_TCP : IPPROTO_SCTP);
    if (fd < 0) {
        co_return error_for(errno, "socket");
    }
    if (is_tcp) {
        set_option(fd, IPPROTO_TCP, TCP_NODELAY);
        set_keepalive(fd);
    }
    sockaddr_storage name{};
    const socklen_t size = to.to_sockaddr(name);
    // Begun before it is registered: a socket that is not connecting reports a hang-up.
    if (::connect(fd, reinterpret_cast<sockaddr*>(&name), size) != 0 && errno != EINPROGRESS) {
        const int why = errno;
        ::close(fd);
        co_return error_for(why, "connect").at(to.format());
    }
    auto channel = loop.open_channel(fd, ChannelRole::Connecting);
    if (!channel.ok()) {
        ::close(fd);
        co_return std::move(channel).error();
    }
    Socket socket(loop, *channel.value());
    const auto connected = co_await ConnectOp(loop, channel.value(), wait);
    if (!connected.ok()) {
        co_return connected.error().at(to.format());
    }
    co_return std::move(socket);
}

// -- Listener

Result<Listener> Listener::open(Loop& loop, const Address& at, const ListenOptions& options) {
    const int fd = open_stream(at);
    if (fd < 0) {
        return error_for(errno, "socket");
    }
    set_option(fd, SOL_SOCKET, SO_REUSEADDR);
    if (options.reuse_port) {
        set_option(fd, SOL_SOCKET, SO_REUSEPORT);
    }
    if (at.is_v6()) {
        const int only = options.v6_only ? 1 : 0;
        (void)::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    }
    set_option(fd, IPPROTO_TCP, TCP_NODELAY);  // accepted sockets inherit these
    set_keepalive(fd);
    sockaddr_storage name{};
    const socklen_t size = at.to_sockaddr(name);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&name), size) != 0 ||
        ::listen(fd, options.backlog) != 0) {
        const Error why = error_for(errno, "listen").at(at.format());
        ::close(fd);
        return Error{Code::Unavailable, why.what};
    }
    auto channel = loop.open_channel(fd, ChannelRole::Listening);
    if (!channel.ok()) {
        ::close(fd);
        return std::move(channel).error();
    }
    Listener listener;
    listener.socket_ = Socket(loop, *channel.value());
    return listener;
}

Task<Result<Accepted>> Listener::accept(Wait wait) {
    Loop& loop = socket_.loop();
    while (socket_.is_open()) {
        AcceptOp op(loop, socket_.channel_, wait);
        const auto [outcome, fd] = co_await op;
        if (outcome == 0) {
            ++stats_.accepted;
            auto socket = Socket::adopt(loop, fd);
            if (!socket.ok()) {
                continue;  // registering failed for want of memory; the client sees a close
            }
            co_return Accepted{std::move(socket).value(), op.peer()};
        }
        if (outcome != EMFILE && outcome != ENFILE && outcome != ENOBUFS && outcome != ENOMEM) {
            co_return error_for(outcome, "accept");
        }
        // The connection stays in the backlog. Trying on at once would only burn the processor.
        ++stats_.refused_no_descriptor;
        const auto resume_us = std::min(loop.after(kPause), wait.deadline_us);
        const Status rested = co_await loop.sleep_until(resume_us, wait.cancel);
        if (!rested.ok()) {
            co_return rested.error();
        }
        if (loop.now_us() >= wait.deadline_us) {
            co_return error_for(Op::kTimedOut, "accept");
        }
    }
    co_return error_for(Op::kClosedHere, "accept");
}

}  // namespace sluice::net
