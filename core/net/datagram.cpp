#include "core/net/datagram.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace sluice::net {
namespace {

constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;

// The socket, or -1 and errno.
int open_echo_fd(bool is_v6, bool& is_raw) noexcept {
    const int family = is_v6 ? AF_INET6 : AF_INET;
    const int protocol = is_v6 ? static_cast<int>(IPPROTO_ICMPV6) : static_cast<int>(IPPROTO_ICMP);
    is_raw = false;
    int fd = ::socket(family, SOCK_DGRAM | kFlags, protocol);
    if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EPROTONOSUPPORT)) {
        is_raw = true;
        fd = ::socket(family, SOCK_RAW | kFlags, protocol);
    }
    return fd;
}

Error echo_error(int why) {
    if (why != EACCES && why != EPERM) {
        return error_for(why, "ping");
    }
    return {Code::Unsupported,
            "ping: this process may send no ICMP echo: it needs its group within "
            "net.ipv4.ping_group_range, or CAP_NET_RAW"};
}

Result<Socket> connected(Loop& loop, int fd, const Address& to) {
    sockaddr_storage name{};
    const socklen_t size = to.to_sockaddr(name);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&name), size) != 0) {
        const int why = errno;
        ::close(fd);
        return error_for(why, "connect").at(to.ip());
    }
    return Socket::adopt_datagram(loop, fd);
}

}  // namespace

Result<Socket> open_udp(Loop& loop, const Address& to) {
    const int fd = ::socket(to.is_v6() ? AF_INET6 : AF_INET, SOCK_DGRAM | kFlags, 0);
    if (fd < 0) {
        return error_for(errno, "socket");
    }
    return connected(loop, fd, to);
}

Result<EchoSocket> open_echo(Loop& loop, const Address& to) {
    EchoSocket out;
    const int fd = open_echo_fd(to.is_v6(), out.is_raw);
    if (fd < 0) {
        return echo_error(errno);
    }
    auto socket = connected(loop, fd, to.with_port(0));
    if (!socket.ok()) {
        return std::move(socket).error();
    }
    out.socket = std::move(socket).value();
    return out;
}

Status can_echo(bool is_v6) {
    bool is_raw = false;
    const int fd = open_echo_fd(is_v6, is_raw);
    if (fd < 0) {
        return echo_error(errno);
    }
    ::close(fd);
    return {};
}

Status can_sctp() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | kFlags, IPPROTO_SCTP);
    if (fd < 0) {
        return Error{Code::Unsupported, "this kernel has no SCTP (module sctp)"};
    }
    ::close(fd);
    return {};
}

}  // namespace sluice::net
