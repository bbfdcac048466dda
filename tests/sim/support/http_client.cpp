#include "tests/sim/support/http_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace sluice::sim::http {
namespace {

class Socket {
public:
    Socket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const timeval limit{kTimeoutS, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    ~Socket() { ::close(fd_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    int fd() const noexcept { return fd_; }

    bool send_all(std::string_view data) const {
        while (!data.empty()) {
            const ssize_t n = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
            if (n <= 0) {
                return false;
            }
            data.remove_prefix(static_cast<std::size_t>(n));
        }
        return true;
    }
    bool receive_all(std::string& out) const {
        char part[16384];
        while (true) {
            const ssize_t n = ::recv(fd_, part, sizeof part, 0);
            if (n <= 0) {
                return n == 0;
            }
            out.append(part, static_cast<std::size_t>(n));
        }
    }

private:
    int fd_;
};

}  // namespace

Result<Answer> ask(const std::string& host, std::uint16_t port, std::string_view method,
                   std::string_view target, std::string_view body) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    const std::string address = host == "localhost" ? "127.0.0.1" : host;
    if (inet_pton(AF_INET, address.c_str(), &at.sin_addr) != 1) {
        return Error{Code::Invalid, "not an IPv4 address: " + host};
    }
    const Socket socket;
    if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
        return Error{Code::Unavailable, "connect: " + std::string(std::strerror(errno))};
    }
    const std::string head =
        std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: " + host +
        "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    std::string all;
    if (!socket.send_all(head + std::string(body)) || !socket.receive_all(all)) {
        return Error{Code::Io, "the exchange broke off"};
    }
    const std::size_t end = all.find("\r\n\r\n");
    const std::size_t space = all.find(' ');
    Answer out;
    if (end == std::string::npos || space > end ||
        std::from_chars(all.data() + space + 1, all.data() + end, out.status).ec != std::errc()) {
        return Error{Code::Io, "the answer is no HTTP"};
    }
    out.body = all.substr(end + 4);
    return out;
}

}  // namespace sluice::sim::http
