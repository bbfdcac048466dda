#include "core/admin/connection.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "core/rules/json_value.hpp"
#include "tests/unit/admin/server_fixture.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("admin/connection");

using namespace sluice;
using namespace sluice::admin;
namespace net = Poco::Net;
using Fixture = sluice::test::ServerFixture;
using sluice::test::post;
using sluice::test::starts;

namespace {

const std::string kVersion = "GET /netlox/v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

// The status, and that the body is the interface's own error.
int error_status(const std::string& answer) {
    if (!starts(answer, "HTTP/1.1 ")) {
        return 0;
    }
    const std::size_t body = answer.find("\r\n\r\n");
    const auto json = rules::Json::parse(answer.substr(body + 4));
    CAPTURE(answer);
    CHECK(json.ok());
    if (json.ok()) {
        CHECK(json->object()->contains("code"));
        CHECK(json->object()->contains("message"));
    }
    return std::stoi(answer.substr(9, 3));
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a head that is malformed or ambiguous hears why, in our error body") {
    start();
    struct Row {
        const char* name;
        std::string bytes;
        int status;
    };
    const std::string get = "GET /netlox/v1/version HTTP/1.1\r\n";
    const std::string lb = "POST /netlox/v1/config/loadbalancer HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    for (const Row& row :
         {Row{"nothing of HTTP", "hello\r\n\r\n", 400},
          Row{"no host", get + "\r\n", 400},
          Row{"two hosts", get + "Host: 127.0.0.1\r\nHost: b\r\n\r\n", 400},
          Row{"a blank before the colon", get + "Host : 127.0.0.1\r\n\r\n", 400},
          Row{"a folded line", get + "Host: 127.0.0.1\r\nX: a\r\n b\r\n\r\n", 400},
          Row{"a bare line feed", get + "Host: 127.0.0.1\n\n", 400},
          Row{"a control character", get + "Host: 127.0.0.1\r\nX: a\x01\r\n\r\n", 400},
          Row{"another version", "GET / HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n", 505},
          Row{"CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 501},
          Row{"a fragment", "GET /#a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400},
          Row{"both lengths",
              lb + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
          Row{"two lengths", lb + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}", 400},
          Row{"a signed length", lb + "Content-Length: +5\r\n\r\n{}", 400},
          Row{"a listed length", lb + "Content-Length: 5, 6\r\n\r\n{}", 400},
          Row{"a negative length", lb + "Content-Length: -1\r\n\r\n{}", 400},
          Row{"another coding", lb + "Transfer-Encoding: gzip\r\n\r\n", 501},
          Row{"chunked is not the last", lb + "Transfer-Encoding: chunked, gzip\r\n\r\n", 400},
          Row{"chunked in HTTP/1.0",
              "POST /netlox/v1/config/loadbalancer HTTP/1.0\r\nTransfer-Encoding: "
              "chunked\r\n\r\n0\r\n\r\n",
              400},
          Row{"a broken chunk size", lb + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
          Row{"an unknown expectation", lb + "Expect: miracles\r\nContent-Length: 2\r\n\r\n{}",
              417},
          Row{"a huge head", get + "X: " + std::string(40'000, 'a') + "\r\n\r\n", 431}}) {
        CAPTURE(row.name);
        CHECK(error_status(exchange(row.bytes)) == row.status);
    }
    std::string many = get + "Host: 127.0.0.1\r\n";
    for (int i = 0; i < 200; ++i) {
        many += "X-" + std::to_string(i) + ": y\r\n";
    }
    CHECK(error_status(exchange(many + "\r\n")) == 431);
    CHECK(store.rules.empty());
    CHECK(starts(exchange(kVersion), "HTTP/1.1 200"));
}

TEST_CASE_FIXTURE(Fixture, "what follows a request is not another request") {
    start();
    const std::string answer = exchange(kVersion + kVersion);
    CHECK(starts(answer, "HTTP/1.1 200"));
    CHECK(answer.find("HTTP/1.1", 1) == std::string::npos);
    // A body where none is read is not taken for one either.
    const std::string with_body =
        exchange("GET /netlox/v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
                 std::to_string(kVersion.size()) + "\r\n\r\n" + kVersion);
    CHECK(starts(with_body, "HTTP/1.1 200"));
    CHECK(with_body.find("HTTP/1.1", 1) == std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "every answer has the headers that keep browsers at bay") {
    start();
    for (const std::string& bytes :
         {kVersion, std::string("GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
          std::string("broken\r\n\r\n")}) {
        const std::string answer = exchange(bytes);
        CAPTURE(answer);
        for (const char* field :
             {"X-Content-Type-Options: nosniff", "Cache-Control: no-store", "X-Frame-Options: DENY",
              "Referrer-Policy: no-referrer", "Content-Security-Policy: default-src 'none'"}) {
            CHECK(answer.find(field) != std::string::npos);
        }
        CHECK(answer.find("Access-Control") == std::string::npos);
    }
}

TEST_CASE_FIXTURE(Fixture, "a body may be waited for with 100-continue") {
    start();
    auto socket = connect();
    const std::string body = test::body();
    send_all(socket,
             "POST /netlox/v1/config/loadbalancer HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: "
             "100-continue\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n");
    char interim[64];
    const int n = socket.receiveBytes(interim, sizeof interim);
    CHECK(starts(std::string(interim, static_cast<std::size_t>(n)), "HTTP/1.1 100 Continue\r\n"));
    send_all(socket, body);
    CHECK(starts(read_all(socket), "HTTP/1.1 200"));
}

TEST_CASE_FIXTURE(Fixture, "a chunked body is taken at any split") {
    start();
    const std::string body = test::body();
    std::string chunked =
        "POST /netlox/v1/config/loadbalancer HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: "
        "chunked\r\n\r\n";
    for (const char c : body) {
        chunked += "1\r\n" + std::string(1, c) + "\r\n";
    }
    chunked += "0\r\nTrailer: x\r\n\r\n";
    CHECK(starts(exchange(chunked), "HTTP/1.1 200"));
    CHECK(book.table()->rules().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "one large document is read at a time, the second is told so") {
    start();
    const std::string body = R"({"rules":[]})";
    const auto import = [&body](const std::string& extra) {
        return "POST /netlox/v1/config/import HTTP/1.1\r\nHost: 127.0.0.1\r\n" + extra +
               "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    };
    net::StreamSocket first = connect();
    send_all(first, import("Expect: 100-continue\r\n"));
    char buffer[64];
    REQUIRE(first.receiveBytes(buffer, sizeof buffer) > 0);  // it is waited for
    const std::string second = exchange(import("") + body);
    CHECK(error_status(second) == 503);
    CHECK(second.find("restore_running") != std::string::npos);
    CHECK(error_status(exchange(post("{}"))) == 400);  // other bodies do not wait
    send_all(first, body);
    CHECK(starts(read_all(first), "HTTP/1.1 200"));
    CHECK(starts(exchange(import("") + body), "HTTP/1.1 200"));
}

TEST_CASE_FIXTURE(Fixture, "an answer is UTF-8 whatever was asked") {
    start();
    const std::string answer =
        exchange("GET /netlox/v1/version?a%ff%F0%9Fb=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    CHECK(error_status(answer) == 400);
    CHECK(answer.find("a\xEF\xBF\xBD") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "one address cannot take every place") {
    config.io_timeout_ms = 60'000;
    config.request_timeout_ms = 60'000;
    config.max_threads = 12;
    config.max_per_address = 8;
    start();
    std::vector<net::StreamSocket> slow;
    for (int i = 0; i < 200; ++i) {
        slow.push_back(connect());
        send_all(slow.back(), "GET /netlox/v1/version HTTP/1.1\r\nX: ");
    }
    // Another address is answered while they all wait.
    CHECK(starts(exchange(kVersion, "127.0.0.2"), "HTTP/1.1 200"));
    // And what was over the bound has been closed.
    std::size_t open = 0;
    for (net::StreamSocket& socket : slow) {
        open += socket.poll(Poco::Timespan(0, 0), net::Socket::SELECT_READ) ? 0 : 1;
    }
    CHECK(open <= 8);
    slow.clear();
    // Places come back.
    std::string answer;
    for (int i = 0; i < 500 && !starts(answer, "HTTP/1.1 200"); ++i) {
        answer = exchange(kVersion);
    }
    CHECK(starts(answer, "HTTP/1.1 200"));
}

TEST_CASE_FIXTURE(Fixture, "slow clients of many addresses make room for one that asks") {
    config.io_timeout_ms = 600'000;  // nobody times out here
    config.request_timeout_ms = 600'000;
    config.max_threads = 4;
    config.max_queued = 64;
    config.max_per_address = 2;
    start();
    std::vector<net::StreamSocket> slow;
    for (int i = 0; i < 40; ++i) {
        slow.push_back(connect("127.0.1." + std::to_string(1 + i / 2)));
        send_all(slow.back(), i % 2 == 0 ? "GET /netlox/v1/version HTTP/1.1\r\nX: "
                                         : "POST /netlox/v1/config/loadbalancer HTTP/1.1\r\n"
                                           "Host: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{");
    }
    for (int i = 0; i < 8; ++i) {
        CHECK(starts(exchange(kVersion, "127.0.0.2"), "HTTP/1.1 200"));
    }
}

TEST_CASE_FIXTURE(Fixture, "who is slow in the head, in the body or in reading is dropped") {
    config.max_threads = 4;
    config.io_timeout_ms = 300;
    config.request_timeout_ms = 1'000;
    start();
    // An answer that does not fit what the system buffers.
    for (int i = 0; i < 600; ++i) {
        const std::string name = '"' + std::string(3000, 'n') + std::to_string(i) + '"';
        const std::string body = test::body({{"port", std::to_string(1000 + i)}, {"name", name}});
        (void)book.put(body, {"ann", "127.0.0.1"});
    }
    auto head = connect();
    send_all(head, "GET /netlox/v1/ver");
    auto body = connect();
    send_all(body, post(std::string(100, ' ')).substr(0, 120));
    auto reader = connect();
    reader.setReceiveBufferSize(4096);
    send_all(reader, "GET /netlox/v1/config/loadbalancer/all HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    CHECK(starts(exchange(kVersion), "HTTP/1.1 200"));
    CHECK(error_status(read_all(head)) == 408);
    CHECK(error_status(read_all(body)) == 408);
}

TEST_CASE_FIXTURE(Fixture, "a reload takes other tokens; a broken file keeps the old ones") {
    const test::Folder folder;
    config.token_file = folder.file("tokens");
    test::write_file(config.token_file, "ann admin first-token\n");
    REQUIRE(chmod(config.token_file.c_str(), 0600) == 0);
    start();
    const auto status = [this](const std::string& token) {
        return exchange(
                   "GET /netlox/v1/status/plugins HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " +
                   token + "\r\n\r\n")
            .substr(9, 3);
    };
    CHECK(status("first-token") == "200");
    test::write_file(config.token_file, "ann admin\n");
    Status staged = server->stage(config);
    REQUIRE_FALSE(staged.ok());
    CHECK(staged.error().what.find("line 1") != std::string::npos);
    server->commit_staged();  // nothing is staged
    CHECK(status("first-token") == "200");
    test::write_file(config.token_file, "ann admin second-token\nbob viewer b-token\n");
    REQUIRE(server->stage(config).ok());
    CHECK(status("first-token") == "200");
    server->commit_staged();
    CHECK(status("first-token") == "401");
    CHECK(status("second-token") == "200");
    CHECK(status("b-token") == "200");
    // On loopback the interface may be opened again; off it, it may not.
    Config open = config;
    open.token_file.clear();
    CHECK(server->stage(open).ok());
}

TEST_CASE_FIXTURE(Fixture, "secrets of a request are in no answer and no log line") {
    const test::Folder folder;
    config.token_file = folder.file("tokens");
    test::write_file(config.token_file, "ann admin s3cret-token\n");
    REQUIRE(chmod(config.token_file.c_str(), 0600) == 0);
    std::mutex mu;
    std::string said;
    log::set_level(log::Level::Debug);
    log::set_sink([&](log::Level, const std::string& line) {
        const std::lock_guard lock(mu);
        said += line + "\n";
    });
    start();
    std::string answers;
    for (const char* token : {"s3cret-token", "s3cret-guess"}) {
        for (const char* target : {"/netlox/v1/diagnostics", "/netlox/v1/nowhere", "/metrics"}) {
            answers +=
                exchange(std::string("GET ") + target +
                         " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n");
            answers +=
                exchange(std::string("TRACE ") + target +
                         " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n");
        }
    }
    server.reset();
    log::set_sink({});
    log::set_level(log::Level::Info);
    CHECK(answers.find("s3cret") == std::string::npos);
    CHECK(said.find("s3cret") == std::string::npos);
}

TEST_SUITE_END();
