#include "core/admin/streams.hpp"

#include <Poco/Net/ServerSocket.h>
#include <Poco/Net/SocketAddress.h>
#include <doctest/doctest.h>

#include <atomic>

#include "core/admin/api_server.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/base/metrics.hpp"
#include "tests/unit/admin/fakes.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("admin/streams");

using namespace sluice;
using namespace sluice::admin;
namespace net = Poco::Net;

namespace {

// Gives what it is told, or without end.
class Source final : public StreamSource {
public:
    bool next(std::string& out) override {
        const std::lock_guard lock(mu_);
        out += std::exchange(text_, {});
        if (is_endless) {
            out.append(4096, 'x');
        }
        return !is_lost;
    }
    void say(const std::string& text) {
        const std::lock_guard lock(mu_);
        text_ += text;
    }
    std::atomic<bool> is_endless{false};
    std::atomic<bool> is_lost{false};

private:
    std::mutex mu_;
    std::string text_;  // guarded by mu_
};

struct Client {
    explicit Client(std::uint16_t port) : socket(net::SocketAddress("127.0.0.1", port)) {
        socket.setReceiveTimeout(Poco::Timespan(5, 0));
    }
    // Reads until `mark` has come; false at an end before it.
    bool sees(const std::string& mark) {
        char buffer[4096];
        while (text.find(mark) == std::string::npos) {
            int n = 0;
            try {
                n = socket.receiveBytes(buffer, sizeof buffer);
            } catch (const Poco::Exception&) {
                return false;
            }
            if (n <= 0) {
                return false;
            }
            text.append(buffer, static_cast<std::size_t>(n));
        }
        return true;
    }
    net::StreamSocket socket;
    std::string text;
};

struct Fixture {
    Fixture() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Fixture() { log::set_sink({}); }

    // A connection of which `streams` has the other end.
    std::unique_ptr<Client> open(Streams& streams, bool want = true) {
        auto client = std::make_unique<Client>(listener.address().port());
        Response response;
        response.content_type = "text/event-stream";
        response.headers.emplace_back("X-Kind", "test");
        response.stream = source;
        CHECK(streams.add(listener.acceptConnection(), response) == want);
        return client;
    }
    static void wait_for_none(const Streams& streams) {
        const std::uint64_t deadline = now_us() + 5'000'000;
        while (streams.size() > 0 && now_us() < deadline) {
            std::this_thread::yield();
        }
        CHECK(streams.size() == 0);
    }
    static double dropped() {
        return metrics::registry().counter("sluice_api_streams_dropped_total", "").value();
    }

    net::ServerSocket listener{net::SocketAddress("127.0.0.1", 0)};
    std::shared_ptr<Source> source = std::make_shared<Source>();
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a reader gets the head, then what the source says as it says it") {
    Streams streams;
    auto client = open(streams);
    REQUIRE(client->sees("\r\n\r\n"));
    CHECK(client->text.find("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n") == 0);
    CHECK(client->text.find("\r\nX-Kind: test\r\n") != std::string::npos);
    source->say("data: 1\n\n");
    CHECK(client->sees("data: 1\n\n"));
    source->say("data: 2\n\n");
    CHECK(client->sees("data: 2\n\n"));
}

TEST_CASE_FIXTURE(Fixture, "there is a bound, and a client that goes makes room") {
    const double before = dropped();
    Streams streams({.max_streams = 2});
    auto first = open(streams);
    auto second = open(streams);
    open(streams, false);
    first.reset();
    second.reset();
    wait_for_none(streams);
    CHECK(open(streams)->sees("\r\n\r\n"));
    CHECK(dropped() == before);  // nobody was slow
}

TEST_CASE_FIXTURE(Fixture, "a reader that takes nothing is dropped and counted") {
    const double before = dropped();
    Streams streams({.stall_us = 20'000});
    source->is_endless = true;
    auto stuck = open(streams);
    wait_for_none(streams);
    CHECK(dropped() == before + 1);
    source->is_endless = false;
    // What the kernel still had comes, then the end.
    CHECK_FALSE(stuck->sees("never said"));
    CHECK(stuck->text.find("HTTP/1.1 200 OK") == 0);
}

TEST_CASE_FIXTURE(Fixture, "a reader that its source has run past is dropped and counted") {
    const double before = dropped();
    Streams streams;
    source->is_lost = true;
    auto late = open(streams);
    wait_for_none(streams);
    CHECK(dropped() == before + 1);
    CHECK_FALSE(late->sees("never said"));
}

TEST_CASE_FIXTURE(Fixture, "silence is filled with comments") {
    Streams streams({.heartbeat_us = 1'000});
    auto client = open(streams);
    CHECK(client->sees(":\n\n:\n\n"));
}

TEST_CASE_FIXTURE(Fixture, "stop ends every stream and takes no more") {
    Streams streams;
    auto one = open(streams);
    auto other = open(streams);
    REQUIRE(one->sees("\r\n\r\n"));
    streams.stop();
    CHECK(streams.size() == 0);
    CHECK_FALSE(one->sees("never said"));
    CHECK_FALSE(other->sees("never said"));
    open(streams, false);
}

TEST_CASE_FIXTURE(Fixture, "the server gives streams away and answers with all its threads") {
    test::MemoryStore store;
    test::RecordingHooks hooks;
    test::FakeProviders providers;
    rules::RuleBook book{store, hooks};
    providers.stream = source;
    Config config;
    config.port = 0;
    config.max_threads = 2;
    ApiServer server(config, book, providers);
    REQUIRE(server.start());
    const auto ask = [&server](const std::string& target) {
        auto client = std::make_unique<Client>(server.port());
        const std::string text = "GET /netlox/v1" + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        client->socket.sendBytes(text.data(), static_cast<int>(text.size()));
        return client;
    };
    std::vector<std::unique_ptr<Client>> readers;
    for (std::size_t i = 0; i < StreamLimits{}.max_streams; ++i) {
        readers.push_back(ask("/status/flows/stream"));
        REQUIRE(readers.back()->sees("Content-Type: text/event-stream\r\n"));
    }
    const auto refused = ask("/status/flows/stream");
    CHECK(refused->sees("too_many_streams"));
    CHECK(refused->text.find("HTTP/1.1 503 ") == 0);
    CHECK(refused->text.find("Retry-After: ") != std::string::npos);
    CHECK(ask("/version")->sees("\"version\""));
    source->say("data: it\n\n");
    bool is_heard = false;
    for (const auto& reader : readers) {
        // One source for all of them here: one reader gets it.
        reader->socket.setReceiveTimeout(Poco::Timespan(0, 50'000));
        is_heard = is_heard || reader->sees("data: it\n\n");
    }
    CHECK(is_heard);
    server.stop();
    readers.front()->socket.setReceiveTimeout(Poco::Timespan(5, 0));
    CHECK_FALSE(readers.front()->sees("never said"));
}

TEST_SUITE_END();
