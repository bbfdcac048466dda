#include "core/admin/api_server.hpp"

#include <Poco/Exception.h>
#include <Poco/Net/HTTPClientSession.h>
#include <Poco/Net/HTTPRequest.h>
#include <Poco/Net/HTTPResponse.h>
#include <Poco/Net/StreamSocket.h>
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <thread>

#include "tests/unit/admin/server_fixture.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("admin/server");

using namespace sluice;
using namespace sluice::admin;
namespace net = Poco::Net;
using Fixture = sluice::test::ServerFixture;
using sluice::test::post;
using sluice::test::starts;

TEST_CASE_FIXTURE(Fixture, "requests are answered over a socket, one a connection") {
    start();
    const std::string answer = exchange(post(test::body()));
    CHECK(starts(answer, "HTTP/1.1 200 OK\r\n"));
    CHECK(answer.find("Content-Type: application/json\r\n") != std::string::npos);
    CHECK(answer.find("Connection: close\r\n") != std::string::npos);
    CHECK(answer.find("Access-Control") == std::string::npos);
    CHECK(answer.find("\"result\":\"Success\"") != std::string::npos);
    CHECK(book.table()->rules().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a chunked body is taken") {
    start();
    const std::string body = test::body();
    char size[16];
    std::snprintf(size, sizeof size, "%zx", body.size());
    const std::string answer = exchange(
        "POST /netlox/v1/config/loadbalancer HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: "
        "chunked\r\n\r\n" +
        std::string(size) + "\r\n" + body + "\r\n0\r\n\r\n");
    CHECK(starts(answer, "HTTP/1.1 200 OK\r\n"));
    CHECK(book.table()->rules().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "HEAD is GET without the body") {
    start();
    const std::string answer =
        exchange("HEAD /netlox/v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    CAPTURE(answer);
    CHECK(starts(answer, "HTTP/1.1 200 OK\r\n"));
    CHECK(answer.find("Content-Length: ") != std::string::npos);
    CHECK(answer.ends_with("\r\n\r\n"));
}

TEST_CASE_FIXTURE(Fixture, "bodies that are too long, cut short or of unknown length are refused") {
    config.max_body_bytes = 1024;
    start();
    CHECK(starts(exchange(post(std::string(1025, ' '))), "HTTP/1.1 413 "));
    CHECK(starts(exchange("POST /netlox/v1/config/loadbalancer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                          "Transfer-Encoding: chunked\r\n\r\n" +
                          std::string("401\r\n") + std::string(1025, ' ') + "\r\n0\r\n\r\n"),
                 "HTTP/1.1 413 "));
    CHECK(
        starts(exchange("POST /netlox/v1/config/loadbalancer HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
               "HTTP/1.1 411 "));
    CHECK(starts(exchange("POST /netlox/v1/config/loadbalancer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                          "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
                 "HTTP/1.1 400 "));
    net::StreamSocket socket = connect();
    const std::string whole = post(test::body());
    send_all(socket, whole.substr(0, whole.size() - 10));
    socket.shutdownSend();
    CHECK(starts(read_all(socket), "HTTP/1.1 400 "));
    CHECK(store.rules.empty());
}

TEST_CASE_FIXTURE(Fixture, "heads that are malformed or without end do no harm") {
    start();
    CHECK_FALSE(starts(exchange("\r\n\r\n"), "HTTP/1.1 200"));
    CHECK_FALSE(starts(exchange(std::string(20'000, 'A')), "HTTP/1.1 200"));
    CHECK_FALSE(starts(
        exchange("GET /netlox/v1/version HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n"),
        "HTTP/1.1 200"));
    std::string many = "GET /netlox/v1/version HTTP/1.1\r\n";
    for (int i = 0; i < 2000; ++i) {
        many += "X-" + std::to_string(i) + ": y\r\n";
    }
    CHECK_FALSE(starts(exchange(many + "\r\n"), "HTTP/1.1 200"));
    CHECK(starts(exchange("GET /netlox/v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
                 "HTTP/1.1 200"));
}

TEST_CASE_FIXTURE(Fixture, "a client that is slow is dropped and does not keep others waiting") {
    config.max_threads = 2;
    config.io_timeout_ms = 300;
    config.request_timeout_ms = 1'000;
    start();
    // Silent in the head, and in the body.
    net::StreamSocket silent = connect();
    send_all(silent, "GET /netlox/v1/ver");
    net::StreamSocket in_body = connect();
    send_all(in_body, post(std::string(100, ' ')).substr(0, 120));
    // Both threads are taken; this one waits for its turn.
    CHECK(starts(exchange("GET /netlox/v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
                 "HTTP/1.1 200"));
    CHECK(read_all(silent).find("!still open") == std::string::npos);
    CHECK(read_all(in_body).find("!still open") == std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a client that trickles is dropped when the whole request is late") {
    config.io_timeout_ms = 5'000;
    config.request_timeout_ms = 200;
    start();
    net::StreamSocket socket = connect();
    const std::string request = "GET /netlox/v1/version HTTP/1.1\r\nX: ";
    send_all(socket, request);
    bool is_open = true;
    // A byte whenever the socket takes one, for far longer than the deadline.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (is_open && std::chrono::steady_clock::now() < end) {
        if (socket.poll(Poco::Timespan(0, 20'000), net::Socket::SELECT_READ)) {
            is_open = false;  // an end or a reset
        } else {
            send_all(socket, "a");
        }
    }
    CHECK_FALSE(is_open);
}

TEST_CASE_FIXTURE(Fixture, "off loopback a token file is needed") {
    config.host = "0.0.0.0";
    CHECK(refused().find("token file") != std::string::npos);
    config.host = "::";
    CHECK(refused().find("token file") != std::string::npos);
    config.host = "localhost";
    CHECK(refused().find("not a numeric address") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a token file that others may read stops the start") {
    const test::Folder folder;
    config.token_file = folder.file("tokens");
    test::write_file(config.token_file, "ann admin a\n");
    REQUIRE(chmod(config.token_file.c_str(), 0644) == 0);
    CHECK(refused().find("0600") != std::string::npos);
    REQUIRE(chmod(config.token_file.c_str(), 0600) == 0);
    start();
    CHECK(starts(exchange("GET /netlox/v1/status/plugins HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
                 "HTTP/1.1 401 "));
    CHECK(starts(
        exchange(
            "GET /netlox/v1/status/plugins HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "
            "a\r\n\r\n"),
        "HTTP/1.1 200 "));
    // Refused before its body is read.
    CHECK(starts(exchange("POST /netlox/v1/config/loadbalancer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                          "Content-Length: 1000\r\n\r\n"),
                 "HTTP/1.1 401 "));
}

TEST_CASE_FIXTURE(Fixture, "an address that is taken is named") {
    start();
    const std::uint16_t taken = server->port();
    Config second = config;
    second.port = taken;
    ApiServer other(second, book, providers);
    const Status started = other.start();
    REQUIRE_FALSE(started.ok());
    CHECK(started.error().what.find(std::to_string(taken)) != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "it stops in time, also with connections that wait") {
    config.io_timeout_ms = 60'000;
    config.request_timeout_ms = 60'000;
    start();
    net::StreamSocket idle = connect();
    send_all(idle, "GET /");
    // Answered, so the idle one has been accepted before.
    CHECK(starts(exchange("GET /netlox/v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
                 "HTTP/1.1 200"));
    const auto begin = std::chrono::steady_clock::now();
    server->stop(100);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
    CHECK(server->port() == 0);
    CHECK(read_all(idle).find("!still open") == std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "many clients at once are all answered") {
    start();
    std::vector<std::jthread> clients;
    std::atomic<int> good = 0;
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back([this, i, &good] {
            for (int k = 0; k < 5; ++k) {
                const std::string body = test::body({{"port", std::to_string(1000 + i * 10 + k)}});
                good += starts(exchange(post(body)), "HTTP/1.1 200") ? 1 : 0;
            }
        });
    }
    clients.clear();
    CHECK(good == 40);
    CHECK(book.table()->rules().size() == 40);
}

TEST_SUITE_END();
