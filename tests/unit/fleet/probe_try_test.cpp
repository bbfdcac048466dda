#include "core/fleet/probe_try.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "core/fleet/probe_http.hpp"
#include "tests/unit/fleet/servers.hpp"

using namespace sluice;
using namespace std::chrono_literals;
using fleet::ProbeAnswer;
using rules::ProbeSpec;
using test::Conversation;
using test::Loopback;
using test::TlsServer;
using Kind = ProbeSpec::Kind;

namespace {

ProbeSpec spec_of(Kind kind, std::uint16_t port) {
    ProbeSpec out;
    out.kind = kind;
    out.address = "127.0.0.1";
    out.port = port;
    return out;
}

// "came", "silence", or the code and text of the failure.
std::string tried(const ProbeSpec& spec, std::chrono::microseconds limit = 20s) {
    const auto loop = net::Loop::create().value();
    const auto tls = net::TlsClient::create().value();
    const net::Wait wait{loop->after(limit), nullptr};
    const auto result = net::run_task(*loop, fleet::try_probe(*loop, tls, spec, wait));
    if (!result) {
        return std::string(to_string(result.error().code)) + ": " + result.error().what;
    }
    return *result == ProbeAnswer::Came ? "came" : "silence";
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

std::uint16_t deaf_port(int type) {
    return Loopback(type).port();  // nobody is there any more
}

// An HTTP server of one answer; what it was asked is in `asked`.
class OneAnswer {
public:
    explicit OneAnswer(std::string answer)
        : server_(SOCK_STREAM, 4), thread_([this, answer = std::move(answer)] {
              Conversation peer(server_);
              asked = peer.until("\r\n\r\n");
              peer.say(answer);
          }) {}
    std::uint16_t port() const { return server_.port(); }
    void finish() { thread_.join(); }
    // Whoever else connected.
    bool was_asked_again() const { return test::is_readable(server_.fd(), 0); }

    std::string asked;

private:
    Loopback server_;
    std::jthread thread_;
};

std::string reply(int status, const std::string& body = "") {
    return "HTTP/1.1 " + std::to_string(status) +
           " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace

TEST_SUITE("fleet/probe_try") {
    TEST_CASE("tcp: a completed connect is up, a refused one is down") {
        const Loopback server(SOCK_STREAM, 4);
        CHECK(tried(spec_of(Kind::Tcp, server.port())) == "came");
        CHECK(has(tried(spec_of(Kind::Tcp, deaf_port(SOCK_STREAM))), "unavailable: "));
    }

    TEST_CASE("tcp: what is expected may come in pieces, and must come") {
        struct Row {
            const char* first;
            const char* second;
            const char* want;
        };
        for (const Row& row : {Row{"220 rea", "dy\r\n", "came"}, Row{"220 no", "t ready", "came"},
                               Row{"500", " busy", "the answer does not hold"},
                               Row{"", "", "the answer does not hold"}}) {
            CAPTURE(row.first);
            const Loopback server(SOCK_STREAM, 4);
            std::string asked;
            std::jthread thread([&] {
                Conversation peer(server);
                asked = peer.until("?");
                peer.say(row.first);
                peer.say(row.second);
            });
            ProbeSpec spec = spec_of(Kind::Tcp, server.port());
            spec.request = "ready?";
            spec.reply = "ready";
            CHECK(has(tried(spec), row.want));
            thread.join();
            CHECK(asked == "ready?");
        }
    }

    TEST_CASE("a peer that takes the connection and says nothing is timed out") {
        const Loopback server(SOCK_STREAM, 4);
        for (const Kind kind : {Kind::Http, Kind::Https, Kind::TlsHello}) {
            CHECK(has(tried(spec_of(kind, server.port()), 50ms), "timed out"));
        }
        ProbeSpec spec = spec_of(Kind::Tcp, server.port());
        spec.reply = "hello";
        CHECK(has(tried(spec, 50ms), "timed out"));
    }

    TEST_CASE("http: the question is as the endpoint's fields say") {
        ProbeSpec spec = spec_of(Kind::Http, 8000);
        spec.path = "/health?deep=1";
        CHECK(fleet::http_question(spec) ==
              "GET /health?deep=1 HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: sluice-probe\r\n"
              "Connection: close\r\n\r\n");
        spec.method = "POST";
        spec.version = "1.0";
        spec.domain = "a.example";
        CHECK(fleet::http_question(spec) ==
              "POST /health?deep=1 HTTP/1.0\r\nHost: a.example\r\nUser-Agent: sluice-probe\r\n"
              "Content-Length: 0\r\nConnection: close\r\n\r\n");
        spec.method = "CONNECT";
        CHECK(has(fleet::http_question(spec), "CONNECT 127.0.0.1:8000 HTTP/1.0\r\n"));
        spec.address = "::1";
        spec.domain.clear();
        CHECK(has(fleet::http_question(spec), "\r\nHost: [::1]:8000\r\n"));
    }

    TEST_CASE("http: the status decides, and a redirect is a status like others") {
        struct Row {
            const char* method;
            const char* codes;
            int status;
            const char* want;
        };
        for (const Row& row :
             {Row{"GET", "200", 200, "came"}, Row{"HEAD", "200", 200, "came"},
              Row{"GET", "200", 204, "status 204"}, Row{"GET", "200-204", 204, "came"},
              Row{"GET", "200,503", 503, "came"}, Row{"GET", "200", 302, "status 302"},
              Row{"GET", "200,302", 302, "came"}, Row{"CONNECT", "200", 200, "came"},
              Row{"OPTIONS", "200", 500, "status 500"}}) {
            CAPTURE(row.method);
            CAPTURE(row.status);
            // A HEAD's answer has the length of a body that does not come.
            const bool is_head = std::string_view(row.method) == "HEAD";
            OneAnswer server(is_head ? "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
                             : row.status == 302
                                 ? "HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"
                                 : reply(row.status));
            ProbeSpec spec = spec_of(Kind::Http, server.port());
            spec.method = row.method;
            spec.codes = row.codes;
            CHECK(has(tried(spec), row.want));
            server.finish();
            CHECK(server.asked.starts_with(row.method));
            CHECK_FALSE(server.was_asked_again());
        }
    }

    TEST_CASE("http: the body must hold what is expected, and must be whole") {
        const std::string far(70'000, '.');
        std::string interim;
        for (int i = 0; i < 100; ++i) {
            interim += "HTTP/1.1 100 Continue\r\n\r\n";
        }
        struct Row {
            std::string answer;
            const char* want;
        };
        for (const Row& row :
             {Row{reply(200, R"({"status":"ready"})"), "came"},
              Row{"HTTP/1.1 103 Early\r\n\r\n" + reply(200, "ready"), "came"},
              Row{"HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                  "chunked\r\n\r\n3\r\nrea\r\n2\r\ndy\r\n0\r\n"
                  "\r\n",
                  "came"},
              Row{"HTTP/1.0 200 OK\r\n\r\nready", "came"},
              Row{reply(200, "starting"), "does not hold"},
              Row{reply(200, far + "ready"), "does not hold"},
              Row{"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nready", "ended within it"},
              Row{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "body: "},
              Row{interim + reply(200, "ready"), "too many interim"},
              Row{"SSH-2.0-OpenSSH\r\n", "answer: "}}) {
            CAPTURE(row.answer.substr(0, 60));
            OneAnswer server(row.answer);
            ProbeSpec spec = spec_of(Kind::Http, server.port());
            spec.reply = "ready";
            CHECK(has(tried(spec), row.want));
        }
    }

    TEST_CASE("udp: an answer, silence and a refusal are told apart") {
        const Loopback server(SOCK_DGRAM);
        CHECK(tried(spec_of(Kind::Udp, server.port()), 50ms) == "silence");
        CHECK(has(tried(spec_of(Kind::Udp, deaf_port(SOCK_DGRAM))), "unavailable"));
        ProbeSpec spec = spec_of(Kind::Udp, server.port());
        spec.reply = "pong";
        CHECK(has(tried(spec, 50ms), "timeout: no answer"));
    }

    TEST_CASE("udp: each datagram is an answer of its own") {
        const Loopback server(SOCK_DGRAM);
        std::string asked;
        std::jthread thread([&] {
            std::array<char, 64> got{};
            sockaddr_in from{};
            for (;;) {
                socklen_t size = sizeof from;
                if (!test::is_readable(server.fd())) {
                    return;
                }
                const ssize_t n = ::recvfrom(server.fd(), got.data(), got.size(), 0,
                                             reinterpret_cast<sockaddr*>(&from), &size);
                asked.assign(got.data(), static_cast<std::size_t>(n));
                if (asked == "ping") {
                    break;
                }
            }
            // One by one, or both at once: the second is found in either case.
            for (const std::string_view text : {"wait", "pong!"}) {
                (void)::sendto(server.fd(), text.data(), text.size(), 0,
                               reinterpret_cast<const sockaddr*>(&from), sizeof from);
            }
        });
        ProbeSpec spec = spec_of(Kind::Udp, server.port());
        spec.request = "ping";
        spec.reply = "pong";
        CHECK(tried(spec) == "came");
        thread.join();
        CHECK(asked == "ping");
    }

    TEST_CASE("ping: the loopback answers where this process may ask, else it says what it needs") {
        for (const char* address : {"127.0.0.1", "::1"}) {
            CAPTURE(address);
            ProbeSpec spec = spec_of(Kind::Ping, 0);
            spec.address = address;
            const Status can = fleet::can_probe(spec);
            const std::string result = tried(spec, 1s);
            CAPTURE(result);
            if (can) {
                // A machine may have no IPv6 address at all.
                CHECK((result == "came" || std::string_view(address) == "::1"));
            } else {
                CHECK(has(result, "unsupported: "));
                CHECK_FALSE(can.error().what.empty());
            }
        }
    }

    TEST_CASE("sctp: connects where the kernel has it, else it says so") {
        const ProbeSpec spec = spec_of(Kind::Sctp, 9);
        const Status can = fleet::can_probe(spec);
        CHECK(has(tried(spec), can ? "unavailable: " : "unsupported: "));
        CHECK((can.ok() || has(can.error().what, "SCTP")));
    }

    TEST_CASE("https: the same questions over TLS, with the domain as server name") {
        for (const bool is_polite : {true, false}) {
            CAPTURE(is_polite);
            const Loopback server(SOCK_STREAM, 4);
            TlsServer tls;
            std::jthread thread([&] {
                Conversation peer(server);
                tls.serve(peer.fd(), "HTTP/1.0 200 OK\r\n\r\nready", is_polite);
            });
            ProbeSpec spec = spec_of(Kind::Https, server.port());
            spec.domain = "engine.example:8443";
            spec.reply = "ready";
            CHECK(tried(spec) == "came");
            thread.join();
            CHECK(tls.server_name == "engine.example");
            CHECK(tls.protocol == "http/1.1");
            CHECK(has(tls.request, "Host: engine.example:8443\r\n"));
        }
    }

    TEST_CASE("https: a wrong status is down, and an address is no server name") {
        const Loopback server(SOCK_STREAM, 4);
        TlsServer tls;
        std::jthread thread([&] {
            Conversation peer(server);
            tls.serve(peer.fd(), reply(503), true);
        });
        CHECK(has(tried(spec_of(Kind::Https, server.port())), "status 503"));
        thread.join();
        CHECK(tls.server_name.empty());
    }

    TEST_CASE("tls-hello: the handshake is all that counts") {
        const Loopback server(SOCK_STREAM, 4);
        TlsServer tls;
        std::jthread thread([&] {
            Conversation peer(server);
            tls.serve(peer.fd(), "", true);
        });
        CHECK(tried(spec_of(Kind::TlsHello, server.port())) == "came");
        thread.join();
        CHECK(tls.is_shaken);
    }

    TEST_CASE("a peer that speaks no TLS is down for TLS") {
        for (const Kind kind : {Kind::Https, Kind::TlsHello}) {
            const Loopback server(SOCK_STREAM, 4);
            std::jthread thread([&] {
                Conversation peer(server);
                peer.say(reply(200));
                (void)peer.has_ended();
            });
            CHECK(has(tried(spec_of(kind, server.port())), "protocol: TLS: "));
        }
    }

    TEST_CASE("what is expected is found across pieces, and only near the start") {
        fleet::AnswerSearch search("ready");
        for (const char* part : {"re", "", "rea", "d", "y"}) {
            CHECK_FALSE(search.is_found());
            search.feed(part);
        }
        CHECK(search.is_found());
        fleet::AnswerSearch far("ready");
        far.feed(std::string(fleet::kMaxAnswerBytes - 2, '.') + "ready");
        CHECK(far.is_full());
        CHECK_FALSE(far.is_found());
        CHECK(fleet::AnswerSearch("").is_found());
    }
}
