#include "tests/sim/support/http_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace sluice::sim::http {
namespace {

Error io_error(const std::string& what) {
    return Error{Code::Io, what + ": " + std::strerror(errno)};
}

Response invalid_request() {
    Response r;
    r.status = 400;
    r.sends_length = false;
    r.content_type.clear();
    r.has_vary = false;
    r.body = "Invalid HTTP request received.";
    r.extra = {{"content-type", "text/plain; charset=utf-8"},
               {"content-length", std::to_string(r.body.size())}};
    return r;
}

}  // namespace

Server::Server(std::string host, std::uint16_t port, Handler handler)
    : host_(std::move(host)), port_(port), handler_(std::move(handler)) {}

Server::~Server() {
    acceptor_ = std::jthread();
    if (listener_ >= 0) {
        ::close(listener_);
    }
}

Status Server::listen() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port_);
    if (inet_pton(AF_INET, host_.c_str(), &at.sin_addr) != 1) {
        return Error{Code::Invalid, "--host: not an IPv4 address: " + host_};
    }
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (listener_ < 0 || ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(listener_, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
        ::listen(listener_, 2048) != 0) {
        return io_error("listen on " + host_ + ":" + std::to_string(port_));
    }
    socklen_t size = sizeof at;
    if (::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
        return io_error("getsockname");
    }
    port_ = ntohs(at.sin_port);
    acceptor_ = std::jthread([this](const std::stop_token& stop) { accept_loop(stop); });
    pthread_setname_np(acceptor_.native_handle(), "accept");
    return {};
}

void Server::reap() {
    connections_.remove_if([](const auto& c) { return c->is_done.load(); });
}

void Server::accept_loop(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
        pollfd p{listener_, POLLIN, 0};
        if (::poll(&p, 1, 200) <= 0) {
            reap();
            continue;
        }
        if (connections_.size() >= kMaxConnections) {
            reap();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            continue;
        }
        const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) {
            continue;
        }
        const int on = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        auto& c = *connections_.emplace_back(std::make_unique<Connection>());
        c.fd = fd;
        c.thread = std::jthread([this, &c, fd] { serve(c, fd); });
        pthread_setname_np(c.thread.native_handle(), "connection");
        if (connections_.size() % 64 == 0) {
            reap();
        }
    }
    for (const auto& c : connections_) {
        const std::lock_guard lock(c->mu);
        ::shutdown(c->fd, SHUT_RDWR);  // ends the wait of its thread; closed ones are -1: no effect
    }
    connections_.clear();
}

void Server::serve(Connection& c, int fd) {
    {
        RequestParser parser;
        Exchange exchange(fd, parser);
        bool has_served = false;
        while (!exchange.closes()) {
            const Parsed p = parser.next();
            if (p == Parsed::Request) {
                Request request = std::move(parser.request());
                exchange.begin(request);
                handler_(request, exchange);
                has_served = true;
            } else if (p == Parsed::Head) {
                if (parser.request().expects_continue()) {
                    exchange.write("HTTP/1.1 100 Continue\r\n\r\n");
                }
            } else if (p == Parsed::Invalid) {
                exchange.begin(Request{});
                exchange.close_after();
                exchange.send(invalid_request());
            } else {
                pollfd poll_fd{fd, POLLIN, 0};
                const bool is_idle = has_served && parser.buffered() == 0;
                const int n = ::poll(&poll_fd, 1, is_idle ? kIdleMs : -1);
                if (n == 0 || (n > 0 && !exchange.read_some())) {
                    break;
                }
            }
        }
    }
    const std::lock_guard lock(c.mu);
    ::close(fd);
    c.fd = -1;
    c.is_done = true;
}

}  // namespace sluice::sim::http
