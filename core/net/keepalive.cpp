#include "core/net/keepalive.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace sluice::net {
namespace {

void set(int fd, int level, int name, int value) noexcept {
    (void)::setsockopt(fd, level, name, &value, sizeof value);
}

}  // namespace

void keep_alive_every(const Socket& socket, std::chrono::seconds interval) noexcept {
    const auto seconds = static_cast<int>(std::min(interval, kMaxKeepAlive).count());
    set(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket.fd(), IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    set(socket.fd(), IPPROTO_TCP, TCP_KEEPINTVL, seconds);
    set(socket.fd(), IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace sluice::net
