#include "core/http/server.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/http/support.hpp"

using namespace sluice;
using namespace sluice::http;
using namespace sluice::http::test;

namespace {

// Answers with method, path and body.
net::Task<void> echo(ServerStream& stream) {
    const auto body = co_await stream.read_body(1'000'000);
    std::string text;
    int status = 200;
    if (body.ok()) {
        text = std::string(stream.head().method) + " " + std::string(stream.head().path) + " " +
               std::string(*body);
    } else {
        status = body.error().code == Code::Limit     ? 413
                 : body.error().code == Code::Timeout ? 408
                                                      : 400;
        text = body.error().what;
    }
    (void)co_await send_simple(stream, status, "text/plain", text);
}

std::string answer(const std::string& text, bool close = false) {
    return "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " +
           std::to_string(text.size()) + "\r\n" + (close ? "Connection: close\r\n" : "") + "\r\n" +
           text;
}

std::size_t count(const std::string& text, std::string_view what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        ++n;
    }
    return n;
}

}  // namespace

TEST_SUITE("http/server") {
    TEST_CASE("requests on one connection are answered one after the other") {
        Site site(echo);
        auto body = [](Site& s) -> net::Task<void> {
            Peer client = co_await s.client();
            for (int i = 0; i < 3; ++i) {
                co_await expect(
                    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
                co_await expect(client.until_size(answer("POST /a hi").size()));
                CHECK(client.take() == answer("POST /a hi"));
            }
            CHECK(s.handler.opened == 1);
            CHECK(s.server->counters().requests == 3);
            CHECK(s.server->counters().exchanges == 0);
            CHECK(s.server->counters().connections == 1);
            client.close();
            co_await expect(s.server->closed({.deadline_us = s.loop->after(20s)}));
            CHECK(s.handler.closed == 1);
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE("pipelined requests of every body kind are all answered, cut anywhere") {
        const std::string requests =
            "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"
            "POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
            "POST /3 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
            "2;x=y\r\nde\r\n1\r\nf\r\n0\r\nTrailer: t\r\n\r\n"
            "POST /4 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
            "POST /5 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\nghi";
        const std::string want = answer("GET /1 ") + answer("POST /2 abc") + answer("POST /3 def") +
                                 answer("POST /4 ") + answer("POST /5 ghi", true);
        Site site(echo);
        auto body = [](Site& s, const std::string& in, const std::string& out) -> net::Task<void> {
            for (std::size_t split = 1; split <= in.size(); split += 3) {
                Peer client = co_await s.client();
                co_await expect(client.send(in.substr(0, split)));
                (void)co_await s.loop->sleep_until(s.loop->now_us());
                co_await expect(client.send(in.substr(split)));
                co_await expect(client.until_end());
                CHECK(client.got == out);
            }
        };
        net::run_task(*site.loop, body(site, requests, want));
    }

    TEST_CASE("bodies larger than every buffer arrive whole, with room behind them") {
        for (const std::size_t size : {7'000U, 8'192U, 70'000U, 200'000U, 3'000'000U}) {
            for (const bool chunked : {false, true}) {
                CAPTURE(size);
                CAPTURE(chunked);
                std::string seen;
                auto take = [&seen](ServerStream& stream) -> net::Task<void> {
                    const auto got = co_await stream.read_body(4'000'000);
                    REQUIRE(got.ok());
                    seen = *got;
                    // The slack may be read.
                    volatile char last = *(got->data() + got->size() + net::kSlackBytes - 1);
                    (void)last;
                    (void)co_await send_simple(stream, 200, "",
                                               std::string_view(seen).substr(0, 3));
                };
                Site site(take);
                std::string payload(size, '\0');
                for (std::size_t i = 0; i < size; ++i) {
                    payload[i] = static_cast<char>('a' + i % 23);
                }
                std::string wire = "POST / HTTP/1.1\r\nHost: h\r\n";
                if (chunked) {
                    wire += "Transfer-Encoding: chunked\r\n\r\n";
                    for (std::size_t at = 0; at < size; at += 5000) {
                        const std::string piece = payload.substr(at, 5000);
                        char line[20];
                        std::snprintf(line, sizeof line, "%zx\r\n", piece.size());
                        wire += line + piece + "\r\n";
                    }
                    wire += "0\r\n\r\n";
                } else {
                    wire += "Content-Length: " + std::to_string(size) + "\r\n\r\n" + payload;
                }
                // The next request is already behind the body.
                wire +=
                    "POST /next HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: "
                    "close\r\n\r\nxyz";
                auto body = [](Site& s, const std::string& text) -> net::Task<std::string> {
                    Peer client = co_await s.client();
                    co_await expect(client.send(text));
                    co_await expect(client.until_end());
                    co_return client.take();
                };
                const std::string got = net::run_task(*site.loop, body(site, wire));
                CHECK(count(got, "HTTP/1.1 200 OK") == 2);
                CHECK(got.find("\r\n\r\nabc") != std::string::npos);
                CHECK(got.substr(got.size() - 3) == "xyz");
                CHECK(seen == "xyz");
            }
        }
    }

    TEST_CASE("a body beyond the limit is a 413, and the client can read it") {
        auto small = [](ServerStream& stream) -> net::Task<void> {
            const auto got = co_await stream.read_body(1000);
            CHECK(got.error().code == Code::Limit);
            (void)co_await send_simple(stream, 413, "text/plain", "too large");
        };
        for (const bool chunked : {false, true}) {
            CAPTURE(chunked);
            Site site(small);
            auto body = [](Site& s, bool in_chunks) -> net::Task<void> {
                Peer client = co_await s.client();
                const std::string payload(100'000, 'x');
                co_await expect(client.send(
                    in_chunks ? "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
                                "chunked\r\n\r\n186a0\r\n"
                              : "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n"));
                co_await expect(client.send(payload));
                co_await expect(client.until("too large"));
                CHECK(client.got.find("413 Content Too Large") != std::string::npos);
                CHECK(client.got.find("Connection: close") != std::string::npos);
                co_await expect(client.until_end());
            };
            net::run_task(*site.loop, body(site, chunked));
        }
    }

    TEST_CASE(
        "a client that waits for 100 Continue gets it at once, and only if the body is wanted") {
        Site site(echo);
        auto body = [](Site& s) -> net::Task<void> {
            Peer client = co_await s.client();
            co_await expect(
                client.send("POST /e HTTP/1.1\r\nHost: h\r\nExpect: "
                            "100-continue\r\nContent-Length: 2\r\n\r\n"));
            co_await expect(client.until("100 Continue\r\n\r\n"));
            CHECK(client.take() == "HTTP/1.1 100 Continue\r\n\r\n");
            co_await expect(client.send("ok"));
            co_await expect(client.until_size(answer("POST /e ok").size()));
            CHECK(client.take() == answer("POST /e ok"));
            // Sent without waiting: no interim answer.
            co_await expect(
                client.send("POST /e HTTP/1.1\r\nHost: h\r\nExpect: "
                            "100-continue\r\nContent-Length: 2\r\n\r\nok"));
            co_await expect(client.until_size(answer("POST /e ok").size()));
            CHECK(client.take() == answer("POST /e ok"));
            co_await expect(
                client.send("POST /e HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
                            "Content-Length: 20000000\r\n\r\n"));
            co_await expect(client.until("413"));
            CHECK(client.got.find("100 Continue") == std::string::npos);
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE("a request the parser refuses gets a JSON error, and the connection ends") {
        Site site(echo);
        auto body = [](Site& s) -> net::Task<void> {
            struct Row {
                std::string text;
                int status;
            };
            for (const Row& row :
                 {Row{"GET / HTTP/1.1\r\n\r\n", 400}, Row{"\x16\x03\x01", 400},
                  Row{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
                  Row{"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
                  Row{"POST / HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n", 417},
                  Row{"GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(70000, 'v'), 431},
                  Row{"GET /fine HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\n", 400}}) {
                CAPTURE(row.text.substr(0, 60));
                Peer client = co_await s.client();
                co_await expect(client.send(row.text));
                co_await expect(client.until_end());
                CHECK(client.got.find("HTTP/1.1 " + std::to_string(row.status) + " ") !=
                      std::string::npos);
                CHECK(client.got.find("{\"error\":{\"message\":\"") != std::string::npos);
                CHECK(client.got.find("Content-Type: application/json") != std::string::npos);
                CHECK(client.got.find("Connection: close") != std::string::npos);
                CHECK(s.handler.last_refused == row.status);
            }
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE(
        "an idle connection ends silently, a slow head with 408, a slow body as the handler says") {
        ServerLimits limits;
        limits.client_idle = 5ms;
        limits.header = 5ms;
        limits.body = 5ms;
        Site site(echo, limits);
        auto body = [](Site& s) -> net::Task<void> {
            Peer idle = co_await s.client();
            co_await expect(idle.until_end());
            CHECK(idle.got.empty());
            Peer slow = co_await s.client();
            co_await expect(slow.send("GET / HT"));
            co_await expect(slow.until_end());
            CHECK(slow.got.find("HTTP/1.1 408 ") == 0);
            Peer half = co_await s.client();
            co_await expect(
                half.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel"));
            co_await expect(half.until("408"));
            co_await expect(half.until_end());
            Peer kept = co_await s.client();
            co_await expect(kept.send("GET /k HTTP/1.1\r\nHost: h\r\n\r\n"));
            co_await expect(kept.until_end());
            CHECK(kept.got == answer("GET /k "));
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE("an HTTP/1.0 client gets a body that ends with the connection") {
        auto chunks = [](ServerStream& stream) -> net::Task<void> {
            stream.send_head(200, {}, Framing::chunked());
            (void)co_await stream.send_body("one ", false);
            (void)co_await stream.send_body("two", false);
            (void)co_await stream.finish();
        };
        Site site(chunks);
        auto body = [](Site& s) -> net::Task<void> {
            Peer client = co_await s.client();
            co_await expect(client.send("GET / HTTP/1.0\r\n\r\n"));
            co_await expect(client.until_end());
            CHECK(client.got == "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\none two");
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE("each send is one chunk, empty ones are none, and last ends the body") {
        auto chunks = [](ServerStream& stream) -> net::Task<void> {
            const Header type{"Content-Type", "text/event-stream"};
            stream.send_head(200, {&type, 1}, Framing::chunked());
            co_await expect(stream.flush());
            const std::string_view parts[] = {"da", "", "ta"};
            co_await expect(stream.send_body(parts, false));
            co_await expect(stream.send_body("", false));
            co_await expect(stream.send_body(std::string(16, 'x'), true));
            CHECK(stream.is_finished());
            co_await expect(stream.finish());
            co_await expect_code(stream.send_body("more", false), Code::Internal);
        };
        const std::string want =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
            "chunked\r\n\r\n"
            "4\r\ndata\r\n10\r\nxxxxxxxxxxxxxxxx\r\n0\r\n\r\n";
        Site site(chunks);
        auto body = [](Site& s, const std::string& out) -> net::Task<void> {
            Peer client = co_await s.client();
            for (int i = 0; i < 2; ++i) {
                co_await expect(client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
                co_await expect(client.until_size(out.size()));
                CHECK(client.take() == out);
            }
        };
        net::run_task(*site.loop, body(site, want));
    }

    TEST_CASE("HEAD, 204 and 304 answers have no body, whatever the handler sends") {
        auto any = [](ServerStream& stream) -> net::Task<void> {
            const int status = stream.head().path == "/204"   ? 204
                               : stream.head().path == "/304" ? 304
                                                              : 200;
            stream.send_head(status, {}, Framing::of_length(5));
            co_await expect(stream.send_body("hello", true));
        };
        Site site(any);
        auto body = [](Site& s) -> net::Task<void> {
            Peer client = co_await s.client();
            co_await expect(
                client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET /204 HTTP/1.1\r\nHost: h\r\n\r\n"
                            "GET /304 HTTP/1.1\r\nHost: h\r\n\r\n"
                            "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
            co_await expect(client.until_end());
            CHECK(client.got ==
                  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
                  "HTTP/1.1 204 No Content\r\n\r\n"
                  "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"
                  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE("a response that is not finished properly never looks complete") {
        auto bad = [](ServerStream& stream) -> net::Task<void> {
            const std::string_view path = stream.head().path;
            if (path == "/none") {
                co_return;
            }
            if (path == "/throws") {
                throw std::runtime_error("broken handler");
            }
            const bool sized = path == "/short" || path == "/long";
            stream.send_head(200, {}, sized ? Framing::of_length(5) : Framing::chunked());
            (void)co_await stream.send_body("abc", false);
            if (path == "/short") {
                co_await expect_code(stream.finish(), Code::Internal);
            }
            if (path == "/long") {
                co_await expect_code(stream.send_body("defg", false), Code::Internal);
            }
            if (path == "/abort") {
                stream.abort();
            }
        };
        Site site(bad);
        auto body = [](Site& s) -> net::Task<void> {
            for (const char* path : {"/none", "/throws"}) {
                CAPTURE(path);
                Peer client = co_await s.client();
                co_await expect(
                    client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n\r\n"));
                co_await expect(client.until_end());
                CHECK(client.got.find("HTTP/1.1 500 ") == 0);
            }
            for (const char* path : {"/short", "/long", "/abort", "/returns"}) {
                CAPTURE(path);
                Peer client = co_await s.client();
                co_await expect(
                    client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n\r\n"));
                co_await expect(client.until_end());
                CHECK(client.got.find("abc") != std::string::npos);
                CHECK(client.got.find("0\r\n\r\n") == std::string::npos);
                Peer old = co_await s.client();
                co_await expect(old.send("GET " + std::string(path) + " HTTP/1.0\r\n\r\n"));
                const bool ended_well = co_await old.until_end();
                CHECK((!ended_well || old.got.find("Content-Length: 5") != std::string::npos));
            }
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE(
        "a refusal without reading the body keeps the connection if the body is already there") {
        auto refuse = [](ServerStream& stream) -> net::Task<void> {
            (void)co_await send_simple(stream, 401, "", "");
        };
        Site site(refuse);
        auto body = [](Site& s) -> net::Task<void> {
            Peer client = co_await s.client();
            co_await expect(
                client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"
                            "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
            const std::string one = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
            co_await expect(client.until_size(2 * one.size()));
            CHECK(client.take() == one + one);
            co_await expect(
                client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhi"));
            co_await expect(client.until_end());
            CHECK(client.got.find("Connection: close") != std::string::npos);
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE("draining ends idle connections at once and live ones after their response") {
        std::unique_ptr<net::Event> go;
        auto slow = [&go](ServerStream& stream) -> net::Task<void> {
            (void)co_await go->wait();
            (void)co_await send_simple(stream, 200, "", "done");
        };
        Site site(slow);
        go = std::make_unique<net::Event>(*site.loop);
        auto body = [](Site& s, net::Event& release) -> net::Task<void> {
            Peer idle = co_await s.client();
            Peer live = co_await s.client();
            co_await expect(live.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
            while (s.server->counters().exchanges != 1 || s.server->counters().connections != 2) {
                (void)co_await s.loop->sleep_until(s.loop->after(1ms));
            }
            const net::Address was = s.server->local();
            s.server->drain();
            CHECK(s.server->is_draining());
            co_await expect(idle.until_end());
            CHECK(s.server->counters().exchanges == 1);
            const auto refused = co_await net::connect(*s.loop, was);
            CHECK(refused.error().code == Code::Unavailable);
            release.set();
            co_await expect(live.until_end());
            CHECK(live.got ==
                  "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone");
            co_await expect(s.server->closed({.deadline_us = s.loop->after(20s)}));
        };
        net::run_task(*site.loop, body(site, *go));
    }

    TEST_CASE("aborting everything ends what handlers wait for") {
        Code seen = Code::Internal;
        auto stuck = [&seen](ServerStream& stream) -> net::Task<void> {
            const Status slept =
                co_await stream.loop().sleep_until(net::kNever, &stream.departure());
            seen = slept.error().code;
        };
        Site site(stuck);
        auto body = [](Site& s) -> net::Task<void> {
            Peer client = co_await s.client();
            co_await expect(client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
            while (s.server->counters().exchanges != 1) {
                (void)co_await s.loop->sleep_until(s.loop->after(1ms));
            }
            s.server->drain();
            s.server->abort_all();
            co_await expect(s.server->closed({.deadline_us = s.loop->after(20s)}));
            co_await expect(client.until_end());
        };
        net::run_task(*site.loop, body(site));
        CHECK(seen == Code::Cancelled);
    }

    TEST_CASE("a server may be destroyed with exchanges in every state") {
        auto stuck = [](ServerStream& stream) -> net::Task<void> {
            (void)co_await stream.read_body(100);
            (void)co_await stream.loop().sleep_until(net::kNever, &stream.departure());
        };
        Site site(stuck);
        auto body = [](Site& s) -> net::Task<void> {
            Peer a = co_await s.client();
            Peer b = co_await s.client();
            Peer c = co_await s.client();
            co_await expect(b.send("GET / HT"));
            co_await expect(c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"));
            while (s.server->counters().connections != 3 || s.server->counters().exchanges != 1) {
                (void)co_await s.loop->sleep_until(s.loop->after(1ms));
            }
            s.server.reset();
            co_await expect(a.until_end());
            CHECK(s.handler.closed == 3);
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE("beyond its connection limit a server accepts one when another ends") {
        ServerLimits limits;
        limits.max_connections = 1;
        Site site(echo, limits);
        auto body = [](Site& s) -> net::Task<void> {
            Peer first = co_await s.client();
            Peer second = co_await s.client();  // in the backlog
            co_await expect(second.send("GET /2 HTTP/1.1\r\nHost: h\r\n\r\n"));
            co_await expect(first.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"));
            co_await expect(first.until("GET /1 "));
            CHECK(s.server->counters().connections == 1);
            first.close();
            co_await expect(second.until("GET /2 "));
        };
        net::run_task(*site.loop, body(site));
    }

    TEST_CASE("a client that takes nothing is given up after the stall limit") {
        Code seen = Code::Internal;
        auto flood = [&seen](ServerStream& stream) -> net::Task<void> {
            stream.send_head(200, {}, Framing::chunked());
            const std::string data(1'000'000, 'x');
            for (;;) {
                const Status sent = co_await stream.send_body(data, false);
                if (!sent.ok()) {
                    seen = sent.error().code;
                    co_return;
                }
            }
        };
        ServerLimits limits;
        limits.send_stall = 5ms;
        Site site(flood, limits);
        auto wait_closed = [](Site& s) -> net::Task<void> {
            Peer client = co_await s.client();
            co_await expect(client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
            while (s.server->counters().requests == 0) {
                (void)co_await s.loop->sleep_until(s.loop->after(1ms));
            }
            co_await expect(s.server->closed({.deadline_us = s.loop->after(20s)}));
        };
        net::run_task(*site.loop, wait_closed(site));
        CHECK(seen == Code::Timeout);
    }

    TEST_CASE("a client that takes little at a time is given up at the deadline of the send") {
        Code seen = Code::Internal;
        auto flood = [&seen](ServerStream& stream) -> net::Task<void> {
            stream.set_send_deadline(stream.loop().after(20ms));
            stream.send_head(200, {}, Framing::chunked());
            const std::string data(64'000'000, 'x');
            const Status sent = co_await stream.send_body(data, false);
            if (!sent.ok()) {
                seen = sent.error().code;
            }
        };
        Site site(flood, {});  // its stall limit is 75 s
        auto read_slowly = [](Site& s) -> net::Task<void> {
            Peer client = co_await s.client();
            co_await expect(client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
            std::size_t wanted = 1;
            while (s.server->counters().exchanges != 0 || s.server->counters().requests == 0) {
                (void)co_await client.until_size(wanted);
                wanted = client.got.size() + 1;
                (void)co_await s.loop->sleep_until(s.loop->after(1ms));
            }
        };
        net::run_task(*site.loop, read_slowly(site));
        CHECK(seen == Code::Timeout);
    }

    TEST_CASE("streams know who talks to whom and how much") {
        std::string peer;
        net::Address local;
        std::uint64_t in = 0;
        std::uint64_t out = 0;
        auto note = [&](ServerStream& stream) -> net::Task<void> {
            (void)co_await stream.read_body(10);
            (void)co_await send_simple(stream, 200, "", "hello");
            peer = stream.peer();
            local = stream.local();
            in = stream.bytes_received();
            out = stream.bytes_sent();
            CHECK(stream.started_us() <= stream.loop().now_us());
        };
        Site site(note);
        auto body = [](Site& s, std::string& me) -> net::Task<std::size_t> {
            Peer client = co_await s.client();
            me = client.socket().local().format();
            co_await expect(
                client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"));
            co_await expect(client.until("hello"));
            co_return client.got.size();
        };
        std::string me;
        const std::size_t wire = net::run_task(*site.loop, body(site, me));
        CHECK(peer == me);
        CHECK(local == site.server->local());
        CHECK(in ==
              std::string("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab").size());
        CHECK(out == wire);
    }
}
