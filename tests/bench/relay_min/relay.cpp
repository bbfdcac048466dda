// The smallest proxy over core/http: reads the body, sends it on round robin, relays the answer.
//
//   bench-relay-relay LISTEN ENGINE...      one loop; both "127.0.0.1:port"
//
// strace -c -f and valgrind --tool=callgrind count what core/net and core/http cost by it.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "core/http/head_writer.hpp"
#include "core/http/server.hpp"
#include "core/http/upstream.hpp"

using namespace sluice;

namespace {

class Relay final : public http::Handler {
public:
    Relay(net::Loop& loop, std::vector<net::Address> engines)
        : loop_(loop), pool_(loop), engines_(std::move(engines)) {
        for (const net::Address& engine : engines_) {
            names_.push_back(engine.format());
        }
    }

    net::Task<void> handle(http::ServerStream& client) override {
        const auto body = co_await client.read_body(std::size_t{64} << 20U);
        if (!body.ok()) {
            co_return;
        }
        const std::size_t chosen = next_++ % engines_.size();
        const net::Wait wait{.deadline_us = loop_.after(std::chrono::seconds(120)),
                             .cancel = &client.departure()};
        auto leased = co_await pool_.acquire(engines_[chosen], wait);
        if (!leased.ok()) {
            co_return;
        }
        http::UpstreamStream up = std::move(leased).value();
        const http::RequestHead& request = client.head();
        std::string head;
        head.reserve(1024);
        http::RequestWriter writer(head, request.method, request.target, names_[chosen]);
        for (const http::Header& h : request.headers) {
            if (http::RequestWriter::forwards(h, client.connection_value())) {
                writer.header(h.name, h.value);
            }
        }
        writer.header("X-Forwarded-For", client.peer());
        writer.finish(body->empty() ? http::Framing::none()
                                    : http::Framing::of_length(body->size()));
        const Status sent = co_await up.send(head, *body, wait);
        if (!sent.ok()) {
            co_return;
        }
        const auto answer = co_await up.read_head(wait);
        if (!answer.ok()) {
            co_return;
        }
        client.send_head(answer->status, answer->headers, up.framing());
        if (!up.has_body_at_hand()) {
            const Status flushed = co_await client.flush();
            if (!flushed.ok()) {
                co_return;
            }
        }
        for (;;) {
            const auto part = co_await up.read_body(wait);
            if (!part.ok()) {
                co_return;
            }
            const Status out = co_await client.send_body(part->bytes, part->last);
            if (!out.ok() || part->last) {
                co_return;
            }
        }
    }

private:
    net::Loop& loop_;
    http::UpstreamPool pool_;
    std::vector<net::Address> engines_;
    std::vector<std::string> names_;
    std::size_t next_ = 0;
};

net::Loop* running = nullptr;

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s LISTEN ENGINE...\n", argv[0]);
        return 2;
    }
    std::vector<net::Address> addresses;
    for (int i = 1; i < argc; ++i) {
        const auto address = net::Address::parse(argv[i]);
        if (!address.ok()) {
            std::fprintf(stderr, "%s\n", address.error().what.c_str());
            return 2;
        }
        addresses.push_back(*address);
    }
    auto loop = net::Loop::create().value();
    running = loop.get();
    std::signal(SIGTERM, [](int) { running->stop(); });
    Relay relay(*loop, {addresses.begin() + 1, addresses.end()});
    const auto server = http::Server::listen(*loop, addresses.front(), relay, {});
    if (!server.ok()) {
        std::fprintf(stderr, "%s\n", server.error().what.c_str());
        return 1;
    }
    loop->run();
    return 0;
}
