// Raw peers for the HTTP tests: both ends of a socket, driven by coroutines of one loop.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>

#include "core/http/respond.hpp"
#include "core/http/server.hpp"
#include "core/http/upstream.hpp"
#include "core/net/event.hpp"
#include "core/net/loop.hpp"

namespace sluice::http::test {

using namespace std::chrono_literals;

inline net::Address loopback() {
    return net::Address::parse("127.0.0.1:0").value();
}

// Awaits, then checks: an assertion of doctest is a lambda, which must not hold a co_await.
inline net::Task<void> expect(net::Task<bool> task,
                              std::source_location at = std::source_location::current()) {
    const bool is_true = co_await task;
    const auto line = at.line();
    CAPTURE(line);
    CHECK(is_true);
}
inline net::Task<void> expect(net::Task<Status> task,
                              std::source_location at = std::source_location::current()) {
    const Status status = co_await task;
    const auto line = at.line();
    CAPTURE(line);
    const std::string what = status.ok() ? "ok" : status.error().what;
    CHECK(what == "ok");
}
inline net::Task<void> expect_code(net::Task<Status> task, Code code,
                                   std::source_location at = std::source_location::current()) {
    const Status status = co_await task;
    const auto line = at.line();
    CAPTURE(line);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == code);
}

// A peer that sends and expects exact bytes. Every wait ends after 20 s.
class Peer {
public:
    Peer(net::Loop& loop, net::Socket socket) : loop_(loop), socket_(std::move(socket)) {}

    static net::Task<Peer> to(net::Loop& loop, net::Address address) {
        auto socket = co_await net::connect(loop, address, {.deadline_us = loop.after(20s)});
        REQUIRE(socket.ok());
        co_return Peer(loop, std::move(socket).value());
    }

    net::Task<bool> send(std::string text) {
        iovec part{text.data(), text.size()};
        const auto sent = co_await socket_.send({&part, 1}, {.deadline_us = loop_.after(20s)});
        co_return sent.ok();
    }
    // Reads on until all that came holds `mark`; false at the end or after 20 s.
    net::Task<bool> until(std::string mark) {
        while (got.find(mark) == std::string::npos) {
            const long n = co_await more();
            if (n == 0) {
                co_return false;
            }
        }
        co_return true;
    }
    net::Task<bool> until_size(std::size_t size) {
        while (got.size() < size) {
            const long n = co_await more();
            if (n == 0) {
                co_return false;
            }
        }
        co_return true;
    }
    // Reads to the end; true for FIN, false for a reset or silence.
    net::Task<bool> until_end() {
        for (;;) {
            const long n = co_await more();
            if (n <= 0) {
                co_return n == 0 && !timed_out_;
            }
        }
    }
    net::Socket& socket() { return socket_; }
    void close() { socket_.close(); }
    std::string take() { return std::exchange(got, {}); }

    std::string got;

private:
    net::Task<long> more() {
        std::string room(65536, '\0');
        const auto n = co_await socket_.recv(room, {.deadline_us = loop_.after(20s)});
        if (!n.ok()) {
            timed_out_ = n.error().code == Code::Timeout;
            co_return timed_out_ ? 0 : -1;
        }
        got.append(room, 0, *n);
        co_return static_cast<long>(*n);
    }

    net::Loop& loop_;
    net::Socket socket_;
    bool timed_out_ = false;
};

class LambdaHandler final : public Handler {
public:
    using Body = std::function<net::Task<void>(ServerStream&)>;
    explicit LambdaHandler(Body body) : body_(std::move(body)) {}
    net::Task<void> handle(ServerStream& stream) override { return body_(stream); }
    void connection_opened() noexcept override { ++opened; }
    void connection_closed() noexcept override { ++closed; }
    void refused(int status) noexcept override { last_refused = status; }

    int opened = 0;
    int closed = 0;
    int last_refused = 0;

private:
    Body body_;
};

// A loop, a server on it and a handler.
struct Site {
    explicit Site(LambdaHandler::Body body, ServerLimits limits = {})
        : loop(net::Loop::create().value()),
          handler(std::move(body)),
          server(Server::listen(*loop, loopback(), handler, limits).value()) {}

    net::Task<Peer> client() { return Peer::to(*loop, server->local()); }

    std::unique_ptr<net::Loop> loop;
    LambdaHandler handler;
    std::unique_ptr<Server> server;
};

}  // namespace sluice::http::test
