// Small loopback servers for probe tests, blocking, each on a thread of the test's.
//
// Every wait ends after 20 s; what then failed makes the test fail, not hang.
#pragma once
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::test {

// A descriptor on 127.0.0.1, bound to a free port.
class Loopback {
public:
    explicit Loopback(int type) : fd_(::socket(AF_INET, type | SOCK_CLOEXEC, 0)) {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
        socklen_t size = sizeof name;
        REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &size) == 0);
        port_ = ntohs(name.sin_port);
    }
    explicit Loopback(int type, int backlog) : Loopback(type) {
        REQUIRE(::listen(fd_, backlog) == 0);
    }
    ~Loopback() { close(); }
    Loopback(const Loopback&) = delete;
    Loopback& operator=(const Loopback&) = delete;

    int fd() const { return fd_; }
    std::uint16_t port() const { return port_; }
    void close() {
        if (fd_ >= 0) {
            ::close(std::exchange(fd_, -1));
        }
    }

private:
    int fd_;
    std::uint16_t port_ = 0;
};

inline bool is_readable(int fd, int limit_ms = 20'000) {
    pollfd wanted{fd, POLLIN, 0};
    return ::poll(&wanted, 1, limit_ms) == 1;
}

// One accepted connection.
class Conversation {
public:
    explicit Conversation(const Loopback& server)
        : fd_(is_readable(server.fd()) ? ::accept4(server.fd(), nullptr, nullptr, SOCK_CLOEXEC)
                                       : -1) {}
    ~Conversation() { close(); }
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    int fd() const { return fd_; }
    // What came, up to and with `mark`, or to the end.
    std::string until(std::string_view mark) {
        std::string got;
        while (got.find(mark) == std::string::npos) {
            std::array<char, 4096> step{};
            if (!is_readable(fd_)) {
                break;
            }
            const ssize_t n = ::recv(fd_, step.data(), step.size(), 0);
            if (n <= 0) {
                break;
            }
            got.append(step.data(), static_cast<std::size_t>(n));
        }
        return got;
    }
    void say(std::string_view text) {
        while (!text.empty()) {
            const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
            if (n <= 0) {
                return;  // the probe has read enough
            }
            text.remove_prefix(static_cast<std::size_t>(n));
        }
    }
    // The peer ended the connection.
    bool has_ended() {
        std::array<char, 4096> step{};
        while (is_readable(fd_)) {
            if (::recv(fd_, step.data(), step.size(), 0) <= 0) {
                return true;
            }
        }
        return false;
    }
    void close() {
        if (fd_ >= 0) {
            ::close(std::exchange(fd_, -1));
        }
    }

private:
    int fd_;
};

// A TLS server's side with a certificate of its own making.
class TlsServer {
public:
    TlsServer();
    ~TlsServer();
    TlsServer(const TlsServer&) = delete;
    TlsServer& operator=(const TlsServer&) = delete;

    // The handshake on an accepted connection; then `answer` to a request, unless it is empty.
    // `is_polite`: says close_notify.
    void serve(int fd, std::string_view answer, bool is_polite);

    std::string server_name;  // what the client asked for by SNI
    std::string protocol;     // what it offered by ALPN
    std::string request;
    bool is_shaken = false;

private:
    SSL_CTX* context_;
};

}  // namespace sluice::test
