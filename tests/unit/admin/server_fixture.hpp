// The interface behind a socket of its own, and clients that speak bytes.
#pragma once
#include <Poco/Exception.h>
#include <Poco/Net/StreamSocket.h>
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "core/admin/api_server.hpp"
#include "core/base/log.hpp"
#include "tests/unit/admin/fakes.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

namespace sluice::test {

namespace net = Poco::Net;

struct ServerFixture {
    ServerFixture() {
        log::set_sink([](log::Level, const std::string&) {});
        config.port = 0;
        // Generous, so that a busy machine drops nobody; tests of slow clients set their own.
        config.io_timeout_ms = 5'000;
        config.request_timeout_ms = 10'000;
    }
    ~ServerFixture() {
        server.reset();
        log::set_sink({});
    }

    void start() {
        server = std::make_unique<admin::ApiServer>(config, book, providers);
        const Status started = server->start();
        REQUIRE_MESSAGE(started.ok(), started.error().what);
        REQUIRE(server->port() != 0);
    }
    std::string refused() {
        server = std::make_unique<admin::ApiServer>(config, book, providers);
        const Status started = server->start();
        REQUIRE_FALSE(started.ok());
        CHECK(server->port() == 0);
        return started.error().what;
    }
    net::StreamSocket connect(const std::string& from = "127.0.0.1") {
        net::StreamSocket socket(net::SocketAddress::IPv4);
        socket.impl()->bind(net::SocketAddress(from, 0));
        socket.connect(net::SocketAddress("127.0.0.1", server->port()));
        socket.setReceiveTimeout(Poco::Timespan(20, 0));
        return socket;
    }
    // Sends `bytes` as they are and reads until the server closes.
    std::string exchange(const std::string& bytes, const std::string& from = "127.0.0.1") {
        net::StreamSocket socket = connect(from);
        send_all(socket, bytes);
        return read_all(socket);
    }
    static void send_all(net::StreamSocket& socket, const std::string& bytes) {
        try {
            socket.sendBytes(bytes.data(), static_cast<int>(bytes.size()));
        } catch (const Poco::Exception&) {
            // The server may have answered and closed before it read all.
        }
    }
    static std::string read_all(net::StreamSocket& socket) {
        std::string out;
        char buffer[4096];
        try {
            for (int n = 1; n > 0;) {
                n = socket.receiveBytes(buffer, sizeof buffer);
                out.append(buffer, static_cast<std::size_t>(std::max(n, 0)));
            }
        } catch (const Poco::TimeoutException&) {
            out += "!still open";
        } catch (const Poco::Exception&) {
            // reset: closed all the same
        }
        return out;
    }

    MemoryStore store;
    RecordingHooks hooks;
    FakeProviders providers;
    rules::RuleBook book{store, hooks};
    admin::Config config;
    std::unique_ptr<admin::ApiServer> server;
};

inline std::string post(const std::string& body, const std::string& extra = "") {
    return "POST /netlox/v1/config/loadbalancer HTTP/1.1\r\nHost: 127.0.0.1\r\n" + extra +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline bool starts(const std::string& text, const std::string& head) {
    return text.rfind(head, 0) == 0;
}

}  // namespace sluice::test
