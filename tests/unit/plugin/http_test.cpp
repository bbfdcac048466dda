#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "core/plugin/origin.hpp"
#include "tests/unit/plugin/support.hpp"

TEST_SUITE_BEGIN("plugin/http");

using namespace sluice::plugin;
using testing::Fake;
using testing::Running;
using testing::Signal;

namespace {

// Answers one connection after the other with what a test says; remembers what was asked.
class Server {
public:
    using Answer = std::function<std::string(const std::string& head)>;

    explicit Server(Answer answer) : answer_(std::move(answer)) {
        fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
        REQUIRE(::listen(fd_, 16) == 0);
        socklen_t size = sizeof at;
        REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
        port_ = ntohs(at.sin_port);
        thread_ = std::thread([this] { run(); });
    }
    ~Server() {
        ::shutdown(fd_, SHUT_RDWR);
        thread_.join();
        ::close(fd_);
    }
    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
    std::vector<std::string> asked() const {
        const std::lock_guard lock(mu_);
        return asked_;
    }

private:
    void run() {
        for (;;) {
            const int c = ::accept(fd_, nullptr, nullptr);
            if (c < 0) {
                return;
            }
            serve(c);
            ::close(c);
        }
    }
    // One request a connection; an empty answer is silence until the client leaves.
    void serve(int c) {
        std::string in;
        std::array<char, 4096> chunk{};
        while (in.find("\r\n\r\n") == std::string::npos) {
            const ssize_t n = ::recv(c, chunk.data(), chunk.size(), 0);
            if (n <= 0) {
                return;
            }
            in.append(chunk.data(), static_cast<std::size_t>(n));
        }
        {
            const std::lock_guard lock(mu_);
            asked_.push_back(in);
        }
        const std::string out = answer_(in);
        if (out.empty()) {
            (void)::recv(c, chunk.data(), chunk.size(), 0);
            return;
        }
        (void)::send(c, out.data(), out.size(), MSG_NOSIGNAL);
    }

    Answer answer_;
    int fd_ = -1;
    std::uint16_t port_ = 0;
    mutable std::mutex mu_;
    std::vector<std::string> asked_;  // guarded by mu_
    std::thread thread_;
};

std::string ok(const std::string& body) {
    return "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

struct Reply {
    Signal done;
    int count = 0;
    sluice_status status = SLUICE_OK;
    std::uint32_t code = 0;
    std::string body, type;
    static void on_done(void* user, const sluice_http_result* result) {
        auto& r = *static_cast<Reply*>(user);
        r.status = result->status;
        r.code = result->http_code;
        r.body.assign(reinterpret_cast<const char*>(result->body.ptr), result->body.len);
        for (std::uint32_t i = 0; i < result->num_headers; ++i) {
            if (view(result->headers[i].key) == "Content-Type") {
                r.type = view(result->headers[i].value);
            }
        }
        if (++r.count == 1) {
            r.done.set();
        }
    }
};

struct Setup {
    explicit Setup(Server::Answer answer, RuntimeOptions options = {})
        : server(std::move(answer)), running(std::move(options)) {
        fake.has_engine = true;
        engine = running.active<EngineInstance>(fake);
        EndpointInfo info;
        info.id = 5;
        info.base_url = server.url();
        info.authorization = "Bearer key-of-the-rule";
        auto made = engine->attach(info, 0);
        REQUIRE(made.ok());
        attachment = *made;
        REQUIRE(attachment->wait(testing::kSoon).ok());
    }
    static sluice_http_request get(const char* target) {
        sluice_http_request request{};
        request.size = sizeof request;
        request.endpoint = 5;
        request.method = borrow("GET");
        request.target = borrow(target);
        return request;
    }
    sluice_status start(const sluice_http_request& request, Reply& reply,
                        sluice_http_call** call = nullptr) {
        sluice_status status = SLUICE_OK;
        running.on_event([&] {
            sluice_http_call* out = nullptr;
            status = fake.service<sluice_http_api>(SLUICE_SVC_HTTP)
                         .start(fake.host, &request, &Reply::on_done, &reply, &out, nullptr);
            // Never inside start().
            CHECK(reply.count == 0);
            if (call != nullptr) {
                *call = out;
            }
        });
        return status;
    }

    Server server;
    Fake fake;
    Running running;
    std::shared_ptr<EngineInstance> engine;
    AttachmentPtr attachment;
};

}  // namespace

TEST_CASE("a call to an attached endpoint brings its answer, with the rule's credentials") {
    Setup s([](const std::string&) { return ok("version 1"); });
    Reply reply;
    auto request = Setup::get("/version?x=1");
    const sluice_pair headers[] = {{borrow("X-Mine"), borrow("yes")},
                                   {borrow("Host"), borrow("elsewhere")},
                                   {borrow("Content-Length"), borrow("99")}};
    request.headers = headers;
    request.num_headers = 3;
    CHECK(s.start(request, reply) == SLUICE_OK);
    REQUIRE(reply.done.wait());
    CHECK(reply.status == SLUICE_OK);
    CHECK(reply.code == 200);
    CHECK(reply.body == "version 1");
    CHECK(reply.type == "text/plain");
    s.running.on_event([&] { CHECK(reply.count == 1); });
    const auto asked = s.server.asked();
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].starts_with("GET /version?x=1 HTTP/1.1\r\n"));
    CHECK(asked[0].find("X-Mine: yes\r\n") != std::string::npos);
    CHECK(asked[0].find("Authorization: Bearer key-of-the-rule\r\n") != std::string::npos);
    CHECK(asked[0].find("elsewhere") == std::string::npos);
    CHECK(asked[0].find("99") == std::string::npos);
    CHECK(s.engine->defects() == 0);
}

TEST_CASE(
    "a key that is changed goes with the calls from then on, and with the next attachment's") {
    Setup s([](const std::string&) { return ok("1"); });
    const auto asked_with = [&](std::size_t n) {
        Reply reply;
        CHECK(s.start(Setup::get("/version"), reply) == SLUICE_OK);
        REQUIRE(reply.done.wait());
        const auto asked = s.server.asked();
        REQUIRE(asked.size() == n);
        const std::size_t at = asked.back().find("Authorization: ");
        REQUIRE(at != std::string::npos);
        return asked.back().substr(at, asked.back().find("\r\n", at) - at);
    };
    CHECK(asked_with(1) == "Authorization: Bearer key-of-the-rule");
    s.attachment->set_authorization("Bearer rotated");
    CHECK(asked_with(2) == "Authorization: Bearer rotated");
    const auto wider =
        s.engine->attach(s.attachment->endpoint(), SLUICE_WATCH_KV | SLUICE_WATCH_LOAD);
    REQUIRE(wider.ok());
    REQUIRE((*wider)->wait(testing::kSoon).ok());
    CHECK(asked_with(3) == "Authorization: Bearer rotated");
}

TEST_CASE("an absolute address gets no credentials of a rule") {
    Setup s([](const std::string&) { return ok("hello"); });
    Reply reply;
    const std::string url = s.server.url() + "/elsewhere";
    auto request = Setup::get(url.c_str());
    request.endpoint = 0;
    CHECK(s.start(request, reply) == SLUICE_OK);
    REQUIRE(reply.done.wait());
    CHECK(reply.body == "hello");
    CHECK(s.server.asked()[0].find("Authorization") == std::string::npos);
}

TEST_CASE("a body is sent with its length") {
    Setup s([](const std::string&) { return ok("[]"); });
    Reply reply;
    auto request = Setup::get("/kv_cache_events");
    request.method = borrow("POST");
    const std::string body = R"({"a":1})";
    request.body = {reinterpret_cast<const std::uint8_t*>(body.data()), body.size()};
    CHECK(s.start(request, reply) == SLUICE_OK);
    REQUIRE(reply.done.wait());
    CHECK(s.server.asked()[0].find("Content-Length: 7\r\n") != std::string::npos);
}

TEST_CASE("the code of the answer is not the outcome of the call") {
    Setup s([](const std::string&) {
        return std::string("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy");
    });
    Reply reply;
    CHECK(s.start(Setup::get("/x"), reply) == SLUICE_OK);
    REQUIRE(reply.done.wait());
    CHECK(reply.status == SLUICE_OK);
    CHECK(reply.code == 503);
    CHECK(reply.body == "busy");
}

TEST_CASE("a body that breaks off or grows too long comes with what there was of it") {
    {
        Setup s([](const std::string&) {
            return std::string("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
        });
        Reply reply;
        CHECK(s.start(Setup::get("/x"), reply) == SLUICE_OK);
        REQUIRE(reply.done.wait());
        CHECK(reply.status < 0);
        CHECK(reply.code == 200);
        CHECK(reply.body == "part");
    }
    {
        Setup s([](const std::string&) { return ok(std::string(1000, 'x')); });
        Reply reply;
        auto request = Setup::get("/x");
        request.max_body_bytes = 10;
        CHECK(s.start(request, reply) == SLUICE_OK);
        REQUIRE(reply.done.wait());
        CHECK(reply.status == SLUICE_E_LIMIT);
        CHECK(reply.body == "xxxxxxxxxx");
    }
}

TEST_CASE("a call may name a limit above the one that holds where it names none") {
    RuntimeOptions options;
    options.http_max_body_bytes = 100;
    Setup s([](const std::string&) { return ok(std::string(1000, 'x')); }, options);
    auto request = Setup::get("/x");
    request.max_body_bytes = 64U << 20U;
    Reply whole;
    CHECK(s.start(request, whole) == SLUICE_OK);
    REQUIRE(whole.done.wait());
    CHECK(whole.status == SLUICE_OK);
    CHECK(whole.body.size() == 1000);
    request.max_body_bytes = 0;
    Reply cut;
    CHECK(s.start(request, cut) == SLUICE_OK);
    REQUIRE(cut.done.wait());
    CHECK(cut.status == SLUICE_E_LIMIT);
}

TEST_CASE("silence ends at the time limit, a refused connection at once") {
    {
        Setup s([](const std::string&) { return std::string(); });
        Reply reply;
        auto request = Setup::get("/x");
        request.timeout_us = 30'000;
        CHECK(s.start(request, reply) == SLUICE_OK);
        REQUIRE(reply.done.wait());
        CHECK(reply.status == SLUICE_E_TIMEOUT);
        CHECK(reply.code == 0);
    }
    {
        Setup s([](const std::string&) { return ok("x"); });
        Reply reply;
        auto request = Setup::get("http://127.0.0.1:1/x");
        request.endpoint = 0;
        CHECK(s.start(request, reply) == SLUICE_OK);
        REQUIRE(reply.done.wait());
        CHECK(reply.status == SLUICE_E_UNAVAILABLE);
    }
}

TEST_CASE("what is no HTTP is a protocol error") {
    Setup s([](const std::string&) { return std::string("SSH-2.0-OpenSSH_9.2\r\n\r\n"); });
    Reply reply;
    CHECK(s.start(Setup::get("/x"), reply) == SLUICE_OK);
    REQUIRE(reply.done.wait());
    CHECK(reply.status == SLUICE_E_PROTOCOL);
}

TEST_CASE("a cancelled call says nothing") {
    Setup s([](const std::string&) { return std::string(); });
    Reply reply;
    sluice_http_call* call = nullptr;
    CHECK(s.start(Setup::get("/x"), reply, &call) == SLUICE_OK);
    const auto& http = s.fake.service<sluice_http_api>(SLUICE_SVC_HTTP);
    s.running.on_event([&] {
        http.cancel(s.fake.host, call);
        http.cancel(s.fake.host, call);
        http.cancel(s.fake.host, nullptr);
    });
    s.running.runtime.settle();
    CHECK(reply.count == 0);
}

TEST_CASE("calls left open when the instance ends say nothing and are a defect") {
    Setup s([](const std::string&) { return std::string(); });
    Reply reply;
    CHECK(s.start(Setup::get("/x"), reply) == SLUICE_OK);
    const auto host = s.engine->host().shared_from_this();
    s.attachment.reset();
    s.engine.reset();
    s.running.runtime.settle();
    CHECK(reply.count == 0);
    CHECK(host->defects() == 1);
    CHECK(s.fake.destroyed == 1);
}

TEST_CASE("calls at a time have a bound") {
    RuntimeOptions options;
    options.http_max_calls = 2;
    Setup s([](const std::string&) { return std::string(); }, options);
    Reply replies[3];
    sluice_http_call* calls[3] = {};
    CHECK(s.start(Setup::get("/x"), replies[0], &calls[0]) == SLUICE_OK);
    CHECK(s.start(Setup::get("/x"), replies[1], &calls[1]) == SLUICE_OK);
    CHECK(s.start(Setup::get("/x"), replies[2], &calls[2]) == SLUICE_E_LIMIT);
    s.running.on_event([&] {
        const auto& http = s.fake.service<sluice_http_api>(SLUICE_SVC_HTTP);
        http.cancel(s.fake.host, calls[0]);
        http.cancel(s.fake.host, calls[1]);
    });
}

TEST_CASE("an unusable call is refused at once") {
    Setup s([](const std::string&) { return ok("x"); });
    Reply reply;
    auto request = Setup::get("/x");
    request.endpoint = 6;
    CHECK(s.start(request, reply) == SLUICE_E_NOT_FOUND);
    CHECK(s.start(Setup::get("no-slash"), reply) == SLUICE_E_INVALID);
    CHECK(s.start(Setup::get("/a b"), reply) == SLUICE_E_INVALID);
    CHECK(s.start(Setup::get("/a\r\nX: y"), reply) == SLUICE_E_INVALID);
    request = Setup::get("/x");
    request.method = borrow("");
    CHECK(s.start(request, reply) == SLUICE_E_INVALID);
    request = Setup::get("https://127.0.0.1/x");
    request.endpoint = 0;
    CHECK(s.start(request, reply) == SLUICE_E_UNSUPPORTED);
    request = Setup::get("http://engine.example/x");
    request.endpoint = 0;
    CHECK(s.start(request, reply) == SLUICE_E_UNSUPPORTED);
    CHECK(reply.count == 0);
}

TEST_CASE("an origin is an address, a host field and a target") {
    const auto v4 = parse_origin("http://10.0.0.7:8000");
    REQUIRE(v4.ok());
    CHECK(v4->address.format() == "10.0.0.7:8000");
    CHECK(v4->host == "10.0.0.7:8000");
    CHECK(v4->target == "/");
    const auto v6 = parse_origin("http://[fd00::7]/a/b?c");
    REQUIRE(v6.ok());
    CHECK(v6->address.format() == "[fd00::7]:80");
    CHECK(v6->target == "/a/b?c");
    CHECK(parse_origin("http://10.0.0.7")->address.port() == 80);
    for (const char* bad :
         {"", "http://", "ftp://10.0.0.7", "http://:80", "http://10.0.0.7:99999"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_origin(bad).ok());
    }
}

TEST_SUITE_END();
