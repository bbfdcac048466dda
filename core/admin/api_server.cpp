#include "core/admin/api_server.hpp"

#include <Poco/Exception.h>
#include <Poco/Net/HTTPRequestHandler.h>
#include <Poco/Net/HTTPRequestHandlerFactory.h>
#include <Poco/Net/HTTPServer.h>
#include <Poco/Net/HTTPServerRequest.h>
#include <Poco/Net/HTTPServerResponse.h>
#include <Poco/Net/IPAddress.h>
#include <Poco/ThreadPool.h>

#include <array>
#include <condition_variable>
#include <mutex>

#include "core/admin/api.hpp"
#include "core/admin/guarded_socket.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

namespace net = Poco::Net;

// Requests being answered; stop() waits for them.
class Running {
public:
    void enter() {
        const std::lock_guard lock(mu_);
        ++count_;
    }
    void leave() {
        {
            const std::lock_guard lock(mu_);
            --count_;
        }
        idle_.notify_all();
    }
    void wait_idle(std::chrono::milliseconds at_most) {
        std::unique_lock lock(mu_);
        idle_.wait_for(lock, at_most, [this] { return count_ == 0; });
    }

private:
    std::mutex mu_;
    std::condition_variable idle_;
    int count_ = 0;  // guarded by mu_
};

class Scope {
public:
    explicit Scope(Running& running) : running_(running) { running_.enter(); }
    ~Scope() { running_.leave(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

private:
    Running& running_;
};

Response bad(int status, const char* code, const char* message) {
    return refusal_response({status, code, "", message, ""});
}

// Empty: the body is in `out`.
std::optional<Response> read_body(net::HTTPServerRequest& in, std::size_t limit, std::string& out) {
    const bool has_length = in.hasContentLength();
    if (has_length && in.getChunkedTransferEncoding()) {
        return bad(400, "malformed_request", "both Content-Length and Transfer-Encoding");
    }
    if (!has_length && !in.getChunkedTransferEncoding()) {
        return bad(411, "length_required", "a body needs Content-Length or chunked transfer");
    }
    const std::uint64_t length =
        has_length ? static_cast<std::uint64_t>(in.getContentLength64()) : 0;
    if (length > limit) {
        return bad(413, "body_too_large", "the body is longer than allowed");
    }
    std::array<char, 16 * 1024> buffer{};
    std::istream& stream = in.stream();
    while (stream.good()) {
        stream.read(buffer.data(), buffer.size());
        out.append(buffer.data(), static_cast<std::size_t>(stream.gcount()));
        if (out.size() > limit) {
            return bad(413, "body_too_large", "the body is longer than allowed");
        }
    }
    if (stream.bad() || (has_length && out.size() != length)) {
        return bad(400, "body_incomplete", "the body ended before its length");
    }
    return std::nullopt;
}

void write(const Response& from, bool is_head, net::HTTPServerResponse& to) {
    to.setStatusAndReason(static_cast<net::HTTPResponse::HTTPStatus>(from.status));
    to.setContentType(from.content_type);
    to.setContentLength64(static_cast<Poco::Int64>(from.body.size()));
    to.setKeepAlive(false);
    to.set("Cache-Control", "no-store");
    to.set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : from.headers) {
        to.set(name, value);
    }
    if (is_head) {
        to.send();
        return;
    }
    to.sendBuffer(from.body.data(), from.body.size());
}

class RequestHandler final : public net::HTTPRequestHandler {
public:
    RequestHandler(Api& api, Running& running, std::size_t max_body)
        : api_(api), running_(running), max_body_(max_body) {}

    void handleRequest(net::HTTPServerRequest& in, net::HTTPServerResponse& out) override {
        const Scope scope(running_);
        try {
            Request request;
            request.method = in.getMethod();
            const std::string& uri = in.getURI();
            const std::size_t mark = uri.find('?');
            request.path = uri.substr(0, mark);
            request.query = mark == std::string::npos ? "" : uri.substr(mark + 1);
            request.authorization = in.get("Authorization", "");
            request.content_type = in.get("Content-Type", "");
            request.origin = in.get("Origin", "");
            request.address = in.clientAddress().host().toString();
            write(respond(in, request), request.method == "HEAD", out);
        } catch (const Poco::Exception& e) {
            // The client is gone or too slow; there is nobody to answer.
            log::debug("management connection ended", {{"why", e.displayText()}});
        } catch (const std::exception& e) {
            log::warn("management request failed", {{"why", e.what()}});
        }
    }

private:
    Response respond(net::HTTPServerRequest& in, Request& request) {
        bool wants_body = false;
        if (auto early = api_.admit(request, wants_body, now_us())) {
            return std::move(*early);
        }
        if (wants_body) {
            if (auto refusal = read_body(in, max_body_, request.body)) {
                return std::move(*refusal);
            }
        }
        return api_.answer(request);
    }

    Api& api_;
    Running& running_;
    const std::size_t max_body_;
};

class HandlerFactory final : public net::HTTPRequestHandlerFactory {
public:
    HandlerFactory(Api& api, Running& running, std::size_t max_body)
        : api_(api), running_(running), max_body_(max_body) {}

    net::HTTPRequestHandler* createRequestHandler(const net::HTTPServerRequest&) override {
        return new RequestHandler(api_, running_, max_body_);  // Poco deletes it
    }

private:
    Api& api_;
    Running& running_;
    const std::size_t max_body_;
};

}  // namespace

class ApiServer::Impl {
public:
    Impl(Config config, rules::RuleBook& book, Providers& providers)
        : config_(std::move(config)), book_(book), providers_(providers) {}
    ~Impl() { stop(0); }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    Status start();
    void stop(std::uint32_t grace_ms);
    std::uint16_t port() const noexcept { return port_; }

private:
    Result<Tokens> tokens() const;
    void listen(const net::IPAddress& address);

    const Config config_;
    rules::RuleBook& book_;
    Providers& providers_;
    std::shared_ptr<Connections> connections_ = std::make_shared<Connections>();
    Running running_;
    std::unique_ptr<Api> api_;
    std::unique_ptr<Poco::ThreadPool> pool_;
    std::unique_ptr<net::HTTPServer> server_;
    std::uint16_t port_ = 0;
};

Result<Tokens> ApiServer::Impl::tokens() const {
    if (!config_.token_file.empty()) {
        return Tokens::load(config_.token_file);
    }
    const auto address = rules::canonical_ip(config_.host);
    if (!address) {
        return Error{Code::Invalid, config_.host + ": not a numeric address"};
    }
    if (!rules::is_loopback(*address)) {
        return Error{Code::Invalid,
                     config_.host +
                         " is not loopback: the management interface needs a token file "
                         "there (--api-token-file)"};
    }
    return Tokens();
}

void ApiServer::Impl::listen(const net::IPAddress& address) {
    GuardedServerSocket socket(
        connections_, {config_.request_timeout_ms * 1000ULL, config_.io_timeout_ms * 1000ULL});
    const net::SocketAddress at(address, config_.port);
    if (address.family() == net::IPAddress::IPv6) {
        socket.bind6(at, true, false, true);
    } else {
        socket.bind(at, true, false);
    }
    socket.listen(64);
    port_ = socket.address().port();

    auto params = Poco::AutoPtr<net::HTTPServerParams>(new net::HTTPServerParams);
    params->setMaxThreads(config_.max_threads);
    params->setMaxQueued(config_.max_queued);
    params->setTimeout(Poco::Timespan(config_.io_timeout_ms * 1000LL));
    // Poco can miss the wake-up of a thread that is about to wait; this bounds the wait of stop().
    params->setThreadIdleTime(Poco::Timespan(0, 500'000));
    // A kept connection keeps a thread of a bounded pool.
    params->setKeepAlive(false);
    params->setSoftwareVersion("sluice");
    pool_ = std::make_unique<Poco::ThreadPool>("api", 2, config_.max_threads + 1);
    server_ = std::make_unique<net::HTTPServer>(
        new HandlerFactory(*api_, running_, config_.max_body_bytes), *pool_, socket, params);
    server_->start();
}

Status ApiServer::Impl::start() {
    auto known = tokens();
    if (!known) {
        return std::move(known).error().at("management interface");
    }
    api_ = std::make_unique<Api>(Context{book_, providers_, config_.version, config_.build_info},
                                 std::move(*known));
    try {
        // Poco takes "::" for no address at all.
        listen(config_.host == "::" ? net::IPAddress(net::IPAddress::IPv6)
                                    : net::IPAddress(config_.host));
    } catch (const Poco::Exception& e) {
        server_.reset();
        port_ = 0;
        return Error{Code::Unavailable, "management interface: " + config_.host + ":" +
                                            std::to_string(config_.port) + ": " + e.displayText()};
    }
    log::info("management interface listens",
              {{"host", config_.host}, {"port", port_}, {"tokens", !config_.token_file.empty()}});
    return {};
}

void ApiServer::Impl::stop(std::uint32_t grace_ms) {
    if (server_ == nullptr) {
        return;
    }
    try {
        server_->stop();
        running_.wait_idle(std::chrono::milliseconds(grace_ms));
        // What waits for a client's bytes ends now; handlers themselves are short.
        connections_->shut_down_all();
        pool_->joinAll();
    } catch (const Poco::Exception& e) {
        log::warn("management interface did not stop cleanly", {{"why", e.displayText()}});
    }
    server_.reset();
    pool_.reset();
    port_ = 0;
}

ApiServer::ApiServer(Config config, rules::RuleBook& book, Providers& providers)
    : impl_(std::make_unique<Impl>(std::move(config), book, providers)) {}
ApiServer::~ApiServer() = default;

Status ApiServer::start() {
    return impl_->start();
}
void ApiServer::stop(std::uint32_t grace_ms) {
    impl_->stop(grace_ms);
}
std::uint16_t ApiServer::port() const {
    return impl_->port();
}

}  // namespace sluice::admin
