// Server and upstream together, as the gateway uses them: a small relay, its clients and engines.
#include <doctest/doctest.h>

#include <string>

#include "core/http/head_writer.hpp"
#include "tests/unit/http/support.hpp"

using namespace sluice;
using namespace sluice::http;
using namespace sluice::http::test;

namespace {

struct Relay {
    explicit Relay(net::Address engine_listens = loopback())
        : loop(net::Loop::create().value()),
          engine(net::Listener::open(*loop, engine_listens).value()),
          pool(*loop),
          handler([this](ServerStream& s) { return handle(s); }),
          server(Server::listen(*loop, loopback(), handler, {}).value()) {}

    net::Task<void> handle(ServerStream& client) {
        const auto body = co_await client.read_body(100'000'000);
        if (!body.ok()) {
            last = body.error().code;
            co_return;
        }
        const net::Wait wait{.deadline_us = loop->after(20s), .cancel = &client.departure()};
        auto leased = co_await pool.acquire(engine.local(), wait);
        if (!leased.ok()) {
            last = leased.error().code;
            co_return;
        }
        UpstreamStream up = std::move(leased).value();
        std::string head;
        RequestWriter writer(head, client.head().method, client.head().target, "engine");
        writer.finish(Framing::of_length(body->size()));
        const Status sent = co_await up.send(head, *body, wait);
        if (!sent.ok()) {
            last = sent.error().code;
            co_return;
        }
        const auto answer = co_await up.read_head(wait);
        if (!answer.ok()) {
            last = answer.error().code;
            co_return;
        }
        client.send_head(answer->status, answer->headers, up.framing());
        for (;;) {
            const auto part = co_await up.read_body(wait);
            if (!part.ok()) {
                last = part.error().code;
                co_return;
            }
            const Status out = co_await client.send_body(part->bytes, part->last);
            if (!out.ok()) {
                last = out.error().code;
                co_return;
            }
            if (part->last) {
                break;
            }
        }
        ++completed;
    }

    net::Task<Peer> client() { return Peer::to(*loop, server->local()); }
    net::Task<Peer> engine_side() {
        auto accepted = co_await engine.accept({.deadline_us = loop->after(20s)});
        REQUIRE(accepted.ok());
        co_return Peer(*loop, std::move(accepted).value().socket);
    }
    net::Task<bool> idle_again() {
        const std::uint64_t deadline_us = loop->after(20s);
        while (server->counters().exchanges != 0 && loop->now_us() < deadline_us) {
            (void)co_await loop->sleep_until(loop->after(1ms));
        }
        co_return server->counters().exchanges == 0;
    }

    std::unique_ptr<net::Loop> loop;
    net::Listener engine;
    UpstreamPool pool;
    LambdaHandler handler;
    std::unique_ptr<Server> server;
    Code last = Code::Internal;
    int completed = 0;
};

enum class Leave { HalfClose, Close, Reset };

void leave(Peer& client, Leave how) {
    switch (how) {
        case Leave::HalfClose:
            client.socket().shutdown_send();
            break;
        case Leave::Close:
            client.close();
            break;
        case Leave::Reset:
            client.socket().close_reset();
            break;
    }
}

const std::string kPost =
    "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}";

}  // namespace

TEST_SUITE("http/relay") {
    TEST_CASE("requests and responses pass through, connections on both sides are kept") {
        Relay relay;
        auto body = [](Relay& r) -> net::Task<void> {
            Peer client = co_await r.client();
            co_await expect(client.send(kPost));
            Peer engine = co_await r.engine_side();
            for (int i = 0; i < 3; ++i) {
                co_await expect(engine.until("{}"));
                CHECK(engine.take() ==
                      "POST /v1/chat/completions HTTP/1.1\r\nHost: engine\r\nContent-Length: "
                      "2\r\n\r\n{}");
                const std::string answer =
                    "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 4\r\n\r\ndone";
                co_await expect(engine.send(answer));
                co_await expect(client.until_size(answer.size()));
                CHECK(client.take() == answer);
                if (i != 2) {
                    co_await expect(client.send(kPost));
                }
            }
            CHECK(r.completed == 3);
            CHECK(r.pool.stats().connects == 1);
            CHECK(r.loop->buffers().lent_bytes() == 0);  // idle connections hold none
        };
        net::run_task(*relay.loop, body(relay));
    }

    TEST_CASE("a stream's chunks are passed on one by one as they come") {
        Relay relay;
        auto body = [](Relay& r) -> net::Task<void> {
            Peer client = co_await r.client();
            co_await expect(client.send(kPost));
            Peer engine = co_await r.engine_side();
            co_await expect(engine.until("{}"));
            co_await expect(engine.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
            for (int i = 0; i < 5; ++i) {
                co_await expect(engine.send("3\r\nabc\r\n"));
                co_await expect(client.until("3\r\nabc\r\n"));
                client.got.clear();
            }
            co_await expect(engine.send("0\r\n\r\n"));
            co_await expect(client.until("0\r\n\r\n"));
            CHECK(r.completed == 1);
        };
        net::run_task(*relay.loop, body(relay));
    }

    TEST_CASE("a client that leaves while the engine is silent closes the engine's connection") {
        for (const Leave how : {Leave::HalfClose, Leave::Close, Leave::Reset}) {
            for (const bool with_pipelined : {false, true}) {
                for (const int phase : {0, 1}) {  // before the head, within the body
                    CAPTURE(static_cast<int>(how));
                    CAPTURE(with_pipelined);
                    CAPTURE(phase);
                    Relay relay;
                    auto body = [](Relay& r, Leave way, bool pipelined, int at) -> net::Task<void> {
                        Peer client = co_await r.client();
                        co_await expect(client.send(kPost));
                        Peer engine = co_await r.engine_side();
                        co_await expect(engine.until("{}"));
                        if (at == 1) {
                            co_await expect(engine.send(
                                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"));
                            co_await expect(client.until("x\r\n"));
                        }
                        if (pipelined) {
                            co_await expect(client.send(kPost));
                            (void)co_await r.loop->sleep_until(r.loop->after(1ms));
                        }
                        leave(client, way);
                        (void)co_await engine.until_end();
                        co_await expect(r.idle_again());
                        CHECK(r.last == Code::Cancelled);
                        CHECK(r.server->counters().departed == 1);
                        CHECK(r.pool.stats().idle == 0);
                        CHECK(r.completed == 0);
                    };
                    net::run_task(*relay.loop, body(relay, how, with_pipelined, phase));
                }
            }
        }
    }

    TEST_CASE("a client that leaves while its request is being sent on is noticed") {
        Relay relay;
        auto body = [](Relay& r) -> net::Task<void> {
            Peer client = co_await r.client();
            const std::string payload(12'000'000, 'x');
            co_await expect(client.send("POST / HTTP/1.1\r\nHost: g\r\nContent-Length: " +
                                        std::to_string(payload.size()) + "\r\n\r\n" + payload));
            Peer engine = co_await r.engine_side();  // and reads nothing
            co_await expect(engine.until("\r\n\r\n"));
            client.close();
            co_await expect(r.idle_again());
            CHECK(r.last == Code::Cancelled);
        };
        net::run_task(*relay.loop, body(relay));
    }

    TEST_CASE("a client that leaves while its response waits for room is noticed") {
        for (const Leave how : {Leave::HalfClose, Leave::Reset}) {
            Relay relay;
            auto body = [](Relay& r, Leave way) -> net::Task<void> {
                Peer client = co_await r.client();
                co_await expect(client.send(kPost));
                Peer engine = co_await r.engine_side();
                co_await expect(engine.until("{}"));
                net::TaskGroup group;
                auto flood = [](Peer& to) -> net::Task<void> {
                    (void)co_await to.send("HTTP/1.1 200 OK\r\n\r\n" +
                                           std::string(24'000'000, 'x'));
                };
                group.spawn(flood(engine));
                // The client reads nothing: in a while the relay can neither send nor read on.
                std::uint64_t before = 0;
                for (;;) {
                    (void)co_await r.loop->sleep_until(r.loop->after(10ms));
                    const std::uint64_t now = r.loop->buffers().lent_bytes();
                    if (now != 0 && now == before) {
                        break;
                    }
                    before = now;
                }
                CHECK(group.size() == 1);  // the engine is held back
                leave(client, way);
                co_await expect(r.idle_again());
                CHECK((r.last == Code::Cancelled || r.last == Code::Closed));
            };
            net::run_task(*relay.loop, body(relay, how));
        }
    }

    TEST_CASE("a client that leaves while the engine's connection is being made is noticed") {
        // A full backlog keeps connects pending.
        Relay relay;
        auto body = [](Relay& r) -> net::Task<void> {
            r.engine.close();
            r.engine = net::Listener::open(*r.loop, loopback(), {.backlog = 0}).value();
            std::vector<net::Socket> fill;
            for (int i = 0; i < 8; ++i) {
                auto one = co_await net::connect(*r.loop, r.engine.local(),
                                                 {.deadline_us = r.loop->after(20ms)});
                if (!one.ok()) {
                    break;
                }
                fill.push_back(std::move(one).value());
            }
            REQUIRE(fill.size() < 8);
            Peer client = co_await r.client();
            co_await expect(client.send(kPost));
            while (r.server->counters().exchanges == 0) {
                (void)co_await r.loop->sleep_until(r.loop->after(1ms));
            }
            CHECK(r.pool.stats().connects == 1);
            client.close();
            co_await expect(r.idle_again());
            CHECK(r.last == Code::Cancelled);
            CHECK(r.pool.stats().active == 0);
        };
        net::run_task(*relay.loop, body(relay));
    }

    TEST_CASE("a truncated response ends the client's connection without an end of the body") {
        Relay relay;
        auto body = [](Relay& r) -> net::Task<void> {
            Peer client = co_await r.client();
            co_await expect(client.send(kPost));
            {
                Peer engine = co_await r.engine_side();
                co_await expect(engine.until("{}"));
                co_await expect(engine.send(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
                co_await expect(client.until("abc"));
            }
            (void)co_await client.until_end();
            CHECK(client.got.find("0\r\n\r\n") == std::string::npos);
            CHECK(r.last == Code::Closed);
        };
        net::run_task(*relay.loop, body(relay));
    }

    TEST_CASE("engines on IPv6 are served alike") {
        Relay relay(net::Address::parse("[::1]:0").value());
        auto body = [](Relay& r) -> net::Task<void> {
            Peer client = co_await r.client();
            co_await expect(client.send(kPost));
            Peer engine = co_await r.engine_side();
            co_await expect(engine.until("{}"));
            co_await expect(engine.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nv6"));
            co_await expect(client.until("v6"));
        };
        net::run_task(*relay.loop, body(relay));
    }
}
