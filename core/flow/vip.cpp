#include "core/flow/vip.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/net/address.hpp"

namespace sluice::flow {
namespace {

struct Descriptor {
    int fd = -1;
    ~Descriptor() {
        if (fd >= 0) {
            ::close(fd);
        }
    }
};

Error failed() {
    return Error{Code::Unavailable, std::strerror(errno)};
}

}  // namespace

Status check_vip_is_free(const rules::ListenAddress& at) {
    const auto address = net::Address::parse_ip(at.ip, at.port);
    if (!address) {
        return address.error();
    }
    sockaddr_storage name{};
    const socklen_t bytes = address->to_sockaddr(name);
    const Descriptor s{::socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (s.fd < 0) {
        return failed();
    }
    const int on = 1;
    // Connections of before that linger in TIME_WAIT do not count, a listener does.
    if (::setsockopt(s.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (address->is_v6() && ::setsockopt(s.fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0) ||
        ::bind(s.fd, reinterpret_cast<const sockaddr*>(&name), bytes) != 0 ||
        ::listen(s.fd, 1) != 0) {
        return failed();
    }
    return {};
}

}  // namespace sluice::flow
