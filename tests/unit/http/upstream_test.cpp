#include "core/http/upstream.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/http/head_writer.hpp"
#include "tests/unit/http/support.hpp"

using namespace sluice;
using namespace sluice::http;
using namespace sluice::http::test;

namespace {

const std::string kGet = "GET / HTTP/1.1\r\nHost: e\r\n\r\n";

// An engine's listening socket, and the connections a script takes from it.
struct Engine {
    explicit Engine(net::Loop& on)
        : loop(on), listener(net::Listener::open(on, loopback()).value()) {}
    net::Task<Peer> accept() {
        auto accepted = co_await listener.accept({.deadline_us = loop.after(20s)});
        REQUIRE(accepted.ok());
        co_return Peer(loop, std::move(accepted).value().socket);
    }
    net::Address address() const { return listener.local(); }
    net::Loop& loop;
    net::Listener listener;
};

struct Reply {
    int status = 0;
    std::string body;
    std::string error;
    Code code = Code::Internal;
    bool not_accepted = false;
    bool reused = false;
    bool complete = false;
};

net::Wait soon(net::Loop& loop) {
    return {.deadline_us = loop.after(20s)};
}

// One whole exchange.
net::Task<Reply> fetch(UpstreamPool& pool, net::Address to, std::string_view head,
                       std::string_view payload, net::Wait wait) {
    Reply reply;
    auto leased = co_await pool.acquire(to, wait);
    if (!leased.ok()) {
        reply.error = leased.error().what;
        reply.code = leased.error().code;
        co_return reply;
    }
    UpstreamStream up = std::move(leased).value();
    reply.reused = up.is_reused();
    const Status sent = co_await up.send(head, payload, wait);
    if (!sent.ok()) {
        reply.error = sent.error().what;
        reply.code = sent.error().code;
        reply.not_accepted = up.not_accepted();
        co_return reply;
    }
    const auto got = co_await up.read_head(wait);
    if (!got.ok()) {
        reply.error = got.error().what;
        reply.code = got.error().code;
        reply.not_accepted = up.not_accepted();
        co_return reply;
    }
    reply.status = got->status;
    for (;;) {
        const auto part = co_await up.read_body(wait);
        if (!part.ok()) {
            reply.error = part.error().what;
            reply.code = part.error().code;
            co_return reply;
        }
        reply.body.append(part->bytes);
        if (part->last) {
            break;
        }
    }
    reply.complete = up.is_complete();
    co_return reply;
}

struct Rig {
    Rig() : loop(net::Loop::create().value()), engine(*loop), pool(*loop) {}
    std::unique_ptr<net::Loop> loop;
    Engine engine;
    UpstreamPool pool;
};

// Serves `replies` on one connection, one a request, each cut into pieces of `piece` bytes.
net::Task<void> serve_on(Engine& engine, Peer peer, std::vector<std::string> replies,
                         std::size_t piece, bool close) {
    for (const std::string& reply : replies) {
        co_await expect(peer.until("\r\n\r\n"));
        peer.got.clear();
        for (std::size_t at = 0; at < reply.size(); at += piece) {
            co_await expect(peer.send(reply.substr(at, piece)));
            (void)co_await engine.loop.sleep_until(engine.loop.now_us());
        }
    }
    if (!close) {
        (void)co_await peer.until_end();
    }
}

net::Task<void> serve(Engine& engine, std::vector<std::string> replies, std::size_t piece,
                      bool close) {
    Peer peer = co_await engine.accept();
    co_await serve_on(engine, std::move(peer), std::move(replies), piece, close);
}

// Answers one request on each of `connections`, which stay open.
net::Task<void> serve_each(Engine& engine, net::TaskGroup& group, int connections) {
    const std::vector<std::string> replies{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
    for (int i = 0; i < connections; ++i) {
        Peer peer = co_await engine.accept();
        group.spawn(serve_on(engine, std::move(peer), replies, 99, false));
    }
}

}  // namespace

TEST_SUITE("http/upstream") {
    TEST_CASE("responses of every framing are read, however they are cut") {
        struct Row {
            const char* name;
            std::string text;
            std::string body;
            bool close;
        };
        const std::vector<Row> rows = {
            {"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", false},
            {"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", false},
            {"chunked",
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
             "chunked\r\n\r\n3\r\nhel\r\n2;x\r\nlo\r\n0\r\nT: t\r\n\r\n",
             "hello", false},
            {"until close", "HTTP/1.1 200 OK\r\n\r\nhello", "hello", true},
            {"interim",
             "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 "
             "OK\r\nContent-Length: 5\r\n\r\nhello",
             "hello", false},
            {"announced close",
             "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "hello",
             true},
        };
        for (const Row& row : rows) {
            for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
                CAPTURE(row.name);
                CAPTURE(piece);
                Rig rig;
                net::TaskGroup group;
                group.spawn(serve(rig.engine, {row.text}, piece, row.close));
                const Reply reply = net::run_task(
                    *rig.loop, fetch(rig.pool, rig.engine.address(), kGet, "", soon(*rig.loop)));
                CHECK(reply.error.empty());
                CHECK(reply.status == 200);
                CHECK(reply.body == row.body);
                CHECK(reply.complete);
                CHECK(rig.pool.stats().active == 0);
                CHECK(rig.pool.stats().idle == (row.close ? 0 : 1));
            }
        }
    }

    TEST_CASE("interim responses without end are a broken engine") {
        std::string text;
        for (int i = 0; i < 100; ++i) {
            text += "HTTP/1.1 100 Continue\r\n\r\n";
        }
        text += "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        Rig rig;
        net::TaskGroup group;
        group.spawn(serve(rig.engine, {text}, text.size(), false));
        const Reply reply = net::run_task(
            *rig.loop, fetch(rig.pool, rig.engine.address(), kGet, "", soon(*rig.loop)));
        CHECK(reply.code == Code::Protocol);
        CHECK(reply.error.find("too many interim") != std::string::npos);
        CHECK(rig.pool.stats().idle == 0);
    }

    TEST_CASE("a complete exchange gives its connection back, and it is used again") {
        Rig rig;
        const std::string reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        net::TaskGroup group;
        group.spawn(serve(rig.engine, {reply, "HTTP/1.1 204 None\r\n\r\n", reply}, 1000, false));
        for (int i = 0; i < 3; ++i) {
            const Reply got = net::run_task(
                *rig.loop, fetch(rig.pool, rig.engine.address(), kGet, "", soon(*rig.loop)));
            CHECK(got.error.empty());
            CHECK(got.reused == (i != 0));
        }
        CHECK(rig.pool.stats().connects == 1);
        CHECK(rig.pool.stats().reuses == 2);
    }

    TEST_CASE("a body cut short is never a success, and the connection is not kept") {
        for (const std::string& text :
             {std::string("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello"),
              std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
              std::string(
                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")}) {
            CAPTURE(text);
            Rig rig;
            net::TaskGroup group;
            group.spawn(serve(rig.engine, {text}, 1000, true));
            const Reply reply = net::run_task(
                *rig.loop, fetch(rig.pool, rig.engine.address(), kGet, "", soon(*rig.loop)));
            CHECK(reply.body == "hello");
            CHECK(reply.code == Code::Closed);
            CHECK_FALSE(reply.complete);
            CHECK(rig.pool.stats().idle == 0);
        }
    }

    TEST_CASE("an unreadable answer is a protocol error") {
        for (const std::string& text :
             {std::string("SSH-2.0-x\r\n"), std::string("HTTP/1.1 200 OK\nX: y\n\n"),
              std::string("HTTP/1.1 101 Switching\r\n\r\n"),
              std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
              "HTTP/1.1 200 OK\r\nX: " + std::string(70000, 'x')}) {
            CAPTURE(text.substr(0, 50));
            Rig rig;
            net::TaskGroup group;
            group.spawn(serve(rig.engine, {text}, 100000, false));
            const Reply reply = net::run_task(
                *rig.loop, fetch(rig.pool, rig.engine.address(), kGet, "", soon(*rig.loop)));
            CHECK(reply.code == Code::Protocol);
            CHECK(rig.pool.stats().idle == 0);
        }
    }

    TEST_CASE("more bytes than announced spoil the connection, not the response") {
        Rig rig;
        net::TaskGroup group;
        group.spawn(serve(rig.engine, {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1"},
                          1000, false));
        const Reply reply = net::run_task(
            *rig.loop, fetch(rig.pool, rig.engine.address(), kGet, "", soon(*rig.loop)));
        CHECK(reply.body == "ok");
        CHECK(reply.complete);
        CHECK(rig.pool.stats().idle == 0);
    }

    TEST_CASE("a pooled connection the engine closes is dropped before anyone gets it") {
        for (const bool speaks : {false, true}) {
            CAPTURE(speaks);
            Rig rig;
            auto body = [](Rig& r, bool out_of_turn) -> net::Task<void> {
                net::TaskGroup group;
                auto one = [](Engine& engine, bool talks) -> net::Task<void> {
                    Peer peer = co_await engine.accept();
                    co_await expect(peer.until("\r\n\r\n"));
                    co_await expect(peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
                    (void)co_await engine.loop.sleep_until(engine.loop.after(2ms));
                    if (talks) {
                        co_await expect(peer.send("HTTP/1.1 408 Bye\r\n\r\n"));
                        (void)co_await peer.until_end();
                    }
                };
                group.spawn(one(r.engine, out_of_turn));
                const Reply first =
                    co_await fetch(r.pool, r.engine.address(), kGet, "", soon(*r.loop));
                CHECK(first.status == 200);
                CHECK(r.pool.stats().idle == 1);
                while (r.pool.stats().idle != 0) {
                    (void)co_await r.loop->sleep_until(r.loop->after(1ms));
                }
                CHECK(r.pool.stats().idle_dropped == 1);
                group.spawn(
                    serve(r.engine, {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, 99, false));
                const Reply second =
                    co_await fetch(r.pool, r.engine.address(), kGet, "", soon(*r.loop));
                CHECK(second.status == 200);
                CHECK_FALSE(second.reused);
            };
            net::run_task(*rig.loop, body(rig, speaks));
        }
    }

    TEST_CASE("a request that meets a stale connection says that it may be replayed") {
        for (const bool reset : {false, true}) {
            CAPTURE(reset);
            Rig rig;
            auto body = [](Rig& r, bool with_reset) -> net::Task<void> {
                net::TaskGroup group;
                // Takes a second request and closes without a word.
                auto one = [](Engine& engine, bool rst) -> net::Task<void> {
                    Peer peer = co_await engine.accept();
                    co_await expect(peer.until("\r\n\r\n"));
                    peer.got.clear();
                    co_await expect(peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
                    co_await expect(peer.until("\r\n\r\n"));
                    if (rst) {
                        peer.socket().close_reset();
                    }
                };
                group.spawn(one(r.engine, with_reset));
                const Reply first =
                    co_await fetch(r.pool, r.engine.address(), kGet, "", soon(*r.loop));
                CHECK(first.status == 200);
                const Reply second =
                    co_await fetch(r.pool, r.engine.address(), kGet, "", soon(*r.loop));
                CHECK(second.reused);
                CHECK(second.code == Code::Closed);
                CHECK(second.not_accepted);
            };
            net::run_task(*rig.loop, body(rig, reset));
        }
    }

    TEST_CASE(
        "a fresh connection that closes, or one that began to answer, is no case for a replay") {
        Rig rig;
        auto body = [](Rig& r) -> net::Task<void> {
            net::TaskGroup group;
            group.spawn(serve(r.engine, {""}, 99, true));
            const Reply fresh = co_await fetch(r.pool, r.engine.address(), kGet, "", soon(*r.loop));
            CHECK(fresh.code == Code::Closed);
            CHECK_FALSE(fresh.not_accepted);
            group.spawn(serve(r.engine, {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1."},
                              99, true));
            const Reply first = co_await fetch(r.pool, r.engine.address(), kGet, "", soon(*r.loop));
            CHECK(first.status == 200);
            const Reply begun = co_await fetch(r.pool, r.engine.address(), kGet, "", soon(*r.loop));
            CHECK(begun.reused);
            CHECK(begun.code == Code::Closed);
            CHECK_FALSE(begun.not_accepted);
        };
        net::run_task(*rig.loop, body(rig));
    }

    TEST_CASE("an engine may answer before it has read the whole body") {
        for (const bool closes : {false, true}) {
            CAPTURE(closes);
            Rig rig;
            auto body = [](Rig& r, bool then_closes) -> net::Task<void> {
                net::TaskGroup group;
                auto early = [](Engine& engine, bool end) -> net::Task<void> {
                    Peer peer = co_await engine.accept();
                    co_await expect(peer.until("\r\n\r\n"));
                    co_await expect(
                        peer.send("HTTP/1.1 413 Large\r\nContent-Length: 3\r\n\r\nbig"));
                    if (!end) {
                        (void)co_await engine.loop.sleep_until(engine.loop.after(1s));
                    }
                };
                group.spawn(early(r.engine, then_closes));
                const std::string payload(12'000'000, 'x');
                const Reply reply =
                    co_await fetch(r.pool, r.engine.address(),
                                   "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 12000000\r\n\r\n",
                                   payload, soon(*r.loop));
                // After a reset the kernel may have thrown the answer away; silence is not an
                // option.
                CHECK((reply.status == 413 || reply.code == Code::Closed));
                if (!then_closes) {
                    CHECK(reply.status == 413);
                    CHECK(reply.body == "big");
                }
                CHECK(r.pool.stats().idle == 0);
            };
            net::run_task(*rig.loop, body(rig, closes));
        }
    }

    TEST_CASE("whatever is there of a body comes at once and in one piece") {
        Rig rig;
        auto body = [](Rig& r) -> net::Task<void> {
            net::TaskGroup group;
            std::string events;
            std::string wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            for (int i = 0; i < 50; ++i) {
                const std::string event = "data: {\"n\":" + std::to_string(i) + "}\n\n";
                char line[16];
                std::snprintf(line, sizeof line, "%zx\r\n", event.size());
                wire += line + event + "\r\n";
                events += event;
            }
            net::Event more(*r.loop);
            auto stream = [](Engine& engine, std::string text, net::Event& go) -> net::Task<void> {
                Peer peer = co_await engine.accept();
                co_await expect(peer.until("\r\n\r\n"));
                co_await expect(peer.send(text));
                (void)co_await go.wait();
                co_await expect(peer.send("4\r\nlast\r\n0\r\n\r\n"));
                (void)co_await peer.until_end();
            };
            group.spawn(stream(r.engine, wire, more));
            auto leased = co_await r.pool.acquire(r.engine.address(), soon(*r.loop));
            UpstreamStream up = std::move(leased).value();
            co_await expect(up.send(kGet, "", soon(*r.loop)));
            const auto head = co_await up.read_head(soon(*r.loop));
            CHECK(head->status == 200);
            CHECK(up.framing() == Framing::chunked());
            const auto first = co_await up.read_body(soon(*r.loop));
            CHECK(first->bytes == events);
            CHECK_FALSE(first->last);
            CHECK(r.loop->buffers().lent_bytes() > 0);
            more.set();
            const auto second = co_await up.read_body(soon(*r.loop));
            CHECK(second->bytes == "last");
            CHECK(second->last);
            up.close();
            CHECK(r.loop->buffers().lent_bytes() == 0);
            CHECK(r.pool.stats().idle == 1);
        };
        net::run_task(*rig.loop, body(rig));
    }

    TEST_CASE("a large response arrives whole, with bounded buffers") {
        Rig rig;
        auto body = [](Rig& r) -> net::Task<void> {
            net::TaskGroup group;
            const std::size_t size = 20'000'000;
            auto flood = [](Engine& engine, std::size_t n) -> net::Task<void> {
                Peer peer = co_await engine.accept();
                co_await expect(peer.until("\r\n\r\n"));
                co_await expect(peer.send("HTTP/1.1 200 OK\r\nContent-Length: " +
                                          std::to_string(n) + "\r\n\r\n" + std::string(n, 'x')));
                (void)co_await peer.until_end();
            };
            group.spawn(flood(r.engine, size));
            auto leased = co_await r.pool.acquire(r.engine.address(), soon(*r.loop));
            UpstreamStream up = std::move(leased).value();
            co_await expect(up.send(kGet, "", soon(*r.loop)));
            const auto head = co_await up.read_head(soon(*r.loop));
            CHECK(head->status == 200);
            std::size_t total = 0;
            std::size_t most = 0;
            for (;;) {
                const auto part = co_await up.read_body(soon(*r.loop));
                REQUIRE(part.ok());
                total += part->bytes.size();
                most = std::max(most, r.loop->buffers().lent_bytes());
                if (part->last) {
                    break;
                }
            }
            CHECK(total == size);
            CHECK(most <= net::kLargeBufferBytes);
        };
        net::run_task(*rig.loop, body(rig));
    }

    TEST_CASE("idle connections end after their time, and beyond the limits at once") {
        auto loop = net::Loop::create().value();
        Engine engine(*loop);
        UpstreamPool pool(*loop, {.idle = 3ms, .max_idle_per_endpoint = 2, .max_idle = 2});
        auto body = [](net::Loop& l, Engine& e, UpstreamPool& p) -> net::Task<void> {
            net::TaskGroup group;
            group.spawn(serve_each(e, group, 3));
            std::vector<UpstreamStream> streams;
            for (int i = 0; i < 3; ++i) {
                auto leased = co_await p.acquire(e.address(), soon(l));
                streams.push_back(std::move(leased).value());
                co_await expect(streams.back().send(kGet, "", soon(l)));
                const auto head = co_await streams.back().read_head(soon(l));
                CHECK(head.ok());
            }
            CHECK(p.stats().active == 3);
            streams.clear();
            CHECK(p.stats().active == 0);
            CHECK(p.stats().idle == 2);
            while (group.size() != 0) {
                (void)co_await l.sleep_until(l.after(1ms));
            }
            CHECK(p.stats().idle == 0);
            CHECK(p.stats().idle_expired == 2);
        };
        net::run_task(*loop, body(*loop, engine, pool));
    }

    TEST_CASE("a purge ends idle connections and keeps none of the busy ones") {
        Rig rig;
        auto body = [](Rig& r) -> net::Task<void> {
            net::TaskGroup group;
            group.spawn(serve_each(r.engine, group, 2));
            auto leased = co_await r.pool.acquire(r.engine.address(), soon(*r.loop));
            UpstreamStream busy = std::move(leased).value();
            const Reply other = co_await fetch(r.pool, r.engine.address(), kGet, "", soon(*r.loop));
            CHECK(other.status == 200);
            CHECK(r.pool.stats().idle == 1);
            r.pool.purge(r.engine.address());
            CHECK(r.pool.stats().idle == 0);
            co_await expect(busy.send(kGet, "", soon(*r.loop)));
            const auto head = co_await busy.read_head(soon(*r.loop));
            CHECK(head.ok());
            CHECK(busy.is_complete());
            busy.close();
            CHECK(r.pool.stats().idle == 0);
            r.pool.purge(r.engine.address());
        };
        net::run_task(*rig.loop, body(rig));
    }

    TEST_CASE("deadlines and cancels end every phase, and the engine sees a close") {
        Rig rig;
        auto body = [](Rig& r) -> net::Task<void> {
            for (const bool by_cancel : {false, true}) {
                for (const int phase : {0, 1, 2}) {
                    CAPTURE(by_cancel);
                    CAPTURE(phase);
                    net::TaskGroup group;
                    net::Cancel cancel;
                    bool saw_close = false;
                    auto silent = [](Engine& engine, int at, bool& closed) -> net::Task<void> {
                        Peer peer = co_await engine.accept();
                        if (at == 2) {
                            co_await expect(
                                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"));
                        }
                        if (at == 0) {
                            (void)co_await engine.loop.sleep_until(engine.loop.after(20ms));
                        }
                        const bool fin = co_await peer.until_end();
                        closed = true;
                        (void)fin;
                    };
                    group.spawn(silent(r.engine, phase, saw_close));
                    auto fire = [](net::Loop& l, net::Cancel& c) -> net::Task<void> {
                        (void)co_await l.sleep_until(l.after(2ms));
                        c.fire();
                    };
                    net::Wait wait;
                    if (by_cancel) {
                        wait.cancel = &cancel;
                        group.spawn(fire(*r.loop, cancel));
                    } else {
                        wait.deadline_us = r.loop->after(2ms);
                    }
                    const std::string payload(phase == 0 ? 12'000'000 : 10, 'x');
                    const Reply reply = co_await fetch(
                        r.pool, r.engine.address(),
                        "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 12000000\r\n\r\n", payload,
                        wait);
                    CHECK(reply.code == (by_cancel ? Code::Cancelled : Code::Timeout));
                    CHECK_FALSE(reply.not_accepted);
                    while (!saw_close) {
                        (void)co_await r.loop->sleep_until(r.loop->after(1ms));
                    }
                }
            }
            CHECK(r.pool.stats().idle == 0);
            CHECK(r.pool.stats().active == 0);
        };
        net::run_task(*rig.loop, body(rig));
    }

    TEST_CASE("an engine that refuses is unavailable, and leaves nothing behind") {
        Rig rig;
        const net::Address gone = rig.engine.address();
        rig.engine.listener.close();
        const Reply reply =
            net::run_task(*rig.loop, fetch(rig.pool, gone, kGet, "", soon(*rig.loop)));
        CHECK(reply.code == Code::Unavailable);
        CHECK(rig.pool.stats().connect_failures == 1);
        CHECK(rig.pool.stats().active == 0);
    }
}
