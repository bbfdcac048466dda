// Stream sockets of a loop: awaitable receive, send, connect and accept, and the hang-up watch.
//
// Every operation takes a Wait (deadline, cancellation). What can be done at once is done without a
// wait; a fired Cancel wins over that. At most one receiving and one sending operation may be
// pending on a socket.
//
// Threads: its loop's.
// Owns:    the descriptor. Closing while an operation is pending ends it with Code::Closed.
// Errors:  see op.hpp. The end of the peer's data is no error: recv returns 0.
#pragma once
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/base/result.hpp"
#include "core/net/address.hpp"
#include "core/net/op.hpp"
#include "core/net/task.hpp"

namespace sluice::net {

// Hears what happens to a socket while nobody receives from it. Called by the loop between
// coroutines; it may close the socket.
class SocketWatcher {
public:
    // The peer sent FIN, also a mere half-close, or the connection broke. At most once a socket,
    // also when unread bytes are still there.
    virtual void on_hangup() noexcept = 0;
    // Bytes arrived and no receive is pending.
    virtual void on_readable() noexcept {}

protected:
    ~SocketWatcher() = default;
};

class RecvOp;
class SendOp;
class ReadableOp;
class Socket;
enum class ChannelRole;
enum class Transport : std::uint8_t { Tcp, Sctp };
// Connects, TCP with TCP_NODELAY. Code::Unavailable when refused or unreachable, Unsupported when
// the kernel has no such transport.
Task<Result<Socket>> connect(Loop& loop, Address to, Wait wait = {},
                             Transport transport = Transport::Tcp);

class Socket {
public:
    Socket() = default;
    // Takes over a connected, non-blocking descriptor; it is closed when registering fails.
    static Result<Socket> adopt(Loop& loop, int fd);
    // The same for one of datagrams: a receive takes one of them, and may be of 0 bytes.
    static Result<Socket> adopt_datagram(Loop& loop, int fd);
    Socket(Socket&& other) noexcept
        : loop_(other.loop_), channel_(std::exchange(other.channel_, nullptr)) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(loop_, other.loop_);
        std::swap(channel_, other.channel_);
        return *this;
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    ~Socket() { close(); }

    bool is_open() const noexcept { return channel_ != nullptr; }
    void close() noexcept;
    // Closing sends RST instead of FIN: the peer cannot take what it got for a whole message.
    void close_reset() noexcept;
    // No more sending; receiving goes on.
    void shutdown_send() noexcept;

    // Result<size_t>: at least 1 byte, or 0 at the end. `into` must not be empty.
    RecvOp recv(std::span<char> into, const Wait& wait = {}) noexcept;
    // Result<size_t>: sends all of `parts`, which are advanced in place as bytes leave, so that
    // after a failure they show the rest. With `until_readable` it also ends, with less than
    // everything, when bytes have arrived meanwhile.
    SendOp send(std::span<iovec> parts, const Wait& wait = {},
                bool until_readable = false) noexcept;
    // Status: ok when recv would not wait. Costs no system call; lets buffers be lent late.
    ReadableOp readable(const Wait& wait = {}) noexcept;

    // What can be received / sent now, without waiting: like recv and send, Code::Unavailable when
    // nothing can.
    Result<std::size_t> recv_now(std::span<char> into) noexcept;
    Result<std::size_t> send_now(std::span<iovec> parts) noexcept;

    // nullptr ends the watch. on_hangup is called at once if it already happened.
    void watch(SocketWatcher* watcher) noexcept;
    // The peer was seen to hang up, or bytes are there, as of the loop's last look: a pooled
    // connection that must not be used again.
    bool is_hung_up() const noexcept;
    bool is_readable() const noexcept;

    Address local() const noexcept;
    Address peer() const noexcept;
    int fd() const noexcept;
    Loop& loop() const noexcept { return *loop_; }

private:
    friend class RecvOp;
    friend class SendOp;
    friend class ReadableOp;
    friend class Listener;
    friend Task<Result<Socket>> connect(Loop&, Address, Wait, Transport);
    Socket(Loop& loop, Channel& channel) noexcept : loop_(&loop), channel_(&channel) {}
    static Result<Socket> adopt(Loop& loop, int fd, ChannelRole role);

    Loop* loop_ = nullptr;
    Channel* channel_ = nullptr;
};

struct ListenOptions {
    bool reuse_port = true;  // one listener per loop on the same address
    bool v6_only = true;     // false: "[::]" takes IPv4 clients too
    int backlog = 4096;
};

struct Accepted {
    Socket socket;
    Address peer;
};

// Counts of one listener; read by its loop.
struct ListenerStats {
    std::uint64_t accepted = 0;
    std::uint64_t refused_no_descriptor = 0;  // pauses because descriptors or memory ran out
};

class Listener {
public:
    // How long accepting rests when the process is out of descriptors.
    static constexpr std::chrono::milliseconds kPause{100};

    Listener() = default;
    // Code::Unavailable when the address cannot be bound.
    static Result<Listener> open(Loop& loop, const Address& at, const ListenOptions& options = {});

    // The next connection, TCP_NODELAY set. Out of descriptors it rests and tries again, so it
    // fails only for its Wait or because the listener was closed.
    Task<Result<Accepted>> accept(Wait wait = {});
    void close() noexcept { socket_.close(); }
    bool is_open() const noexcept { return socket_.is_open(); }
    Address local() const noexcept { return socket_.local(); }
    const ListenerStats& stats() const noexcept { return stats_; }

private:
    Socket socket_;
    ListenerStats stats_;
};

// Base of the operations on one socket; a back end drives it.
class IoOp : public Op {
public:
    enum class Kind : std::uint8_t { Recv, Readable, Send, Connect, Accept };

protected:
    IoOp(Kind kind, Loop& loop, Channel* channel, const Wait& wait, std::span<char> into = {},
         std::span<iovec> parts = {}, bool until_readable = false) noexcept
        : Op(loop, wait),
          channel_(channel),
          into_(into),
          parts_(parts),
          kind_(kind),
          until_readable_(until_readable) {}
    ~IoOp() override = default;

    bool try_now() noexcept override;
    void begin() noexcept override;
    void withdraw(int outcome) noexcept override;
    void abandon() noexcept override;
    Result<std::size_t> result(const char* what) const;
    std::size_t moved() const noexcept { return moved_; }

private:
    friend class Loop;
    friend class EpollLoop;
    friend class Socket;

    Channel* channel_;
    std::span<char> into_;    // Recv; Accept: room for the peer's name
    std::span<iovec> parts_;  // Send: what is still to go
    std::size_t moved_ = 0;   // Recv, Send: bytes; Accept: the descriptor
    Kind kind_;
    bool until_readable_ = false;
};

class RecvOp final : public IoOp {
public:
    RecvOp(Loop& loop, Channel* channel, std::span<char> into, const Wait& wait) noexcept;
    ~RecvOp() override { retire(); }
    Result<std::size_t> await_resume() const { return result("receive"); }
};

class SendOp final : public IoOp {
public:
    SendOp(Loop& loop, Channel* channel, std::span<iovec> parts, const Wait& wait,
           bool until_readable) noexcept;
    ~SendOp() override { retire(); }
    Result<std::size_t> await_resume() const { return result("send"); }
};

class ReadableOp final : public IoOp {
public:
    ReadableOp(Loop& loop, Channel* channel, const Wait& wait) noexcept
        : IoOp(Kind::Readable, loop, channel, wait) {}
    ~ReadableOp() override { retire(); }
    Status await_resume() const;
};

}  // namespace sluice::net
