#include "core/admin/api_server.hpp"

#include <Poco/Exception.h>
#include <Poco/Net/IPAddress.h>
#include <Poco/Net/TCPServer.h>
#include <Poco/Net/TCPServerParams.h>
#include <Poco/ThreadPool.h>

#include "core/admin/connection.hpp"
#include "core/admin/guarded_socket.hpp"
#include "core/admin/streams.hpp"
#include "core/base/log.hpp"
#include "core/base/metrics.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

namespace net = Poco::Net;

// One address does not take every place.
class AddressFilter final : public net::TCPServerConnectionFilter {
public:
    AddressFilter(std::shared_ptr<Connections> connections, std::size_t max_per_address)
        : connections_(std::move(connections)), max_per_address_(max_per_address) {}

    bool accept(const net::StreamSocket& socket) override {
        std::string address;
        try {
            address = socket.peerAddress().host().toString();
        } catch (const Poco::Exception&) {
            return false;  // gone already
        }
        if (connections_->of_address(address) <= max_per_address_) {
            return true;
        }
        refused_.add();
        log::warn("management connection refused: too many of this address", {{"from", address}});
        return false;
    }

private:
    const std::shared_ptr<Connections> connections_;
    const std::size_t max_per_address_;
    metrics::Counter& refused_ = metrics::registry().counter(
        "sluice_api_connections_refused_total",
        "Management connections refused because their address had too many.");
};

Result<Tokens> tokens_of(const Config& config) {
    const auto address = rules::canonical_ip(config.host);
    if (!address) {
        return Error{Code::Invalid, config.host + ": not a numeric address"};
    }
    if (!config.token_file.empty()) {
        return Tokens::load(config.token_file);
    }
    if (!rules::is_loopback(*address)) {
        return Error{Code::Invalid,
                     config.host +
                         " is not loopback: the management interface needs a token file "
                         "there (--api-token-file)"};
    }
    return Tokens();
}

}  // namespace

class ApiServer::Impl {
public:
    Impl(Config config, rules::RuleBook& book, Providers& providers)
        : config_(std::move(config)),
          book_(book),
          providers_(providers),
          connections_(
              std::make_shared<Connections>(static_cast<std::size_t>(config_.max_threads))) {}
    ~Impl() { stop(0); }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    Status start();
    Status stage(const Config& next);
    void commit_staged();
    void stop(std::uint32_t grace_ms);
    std::uint16_t port() const noexcept { return port_; }

private:
    struct Staged {
        Tokens tokens;
        KnobValues knobs;
    };
    void listen(const net::IPAddress& address);

    const Config config_;
    std::optional<Staged> staged_;
    rules::RuleBook& book_;
    Providers& providers_;
    const std::shared_ptr<Connections> connections_;
    Running running_;
    std::unique_ptr<Api> api_;
    std::unique_ptr<Streams> streams_;
    std::unique_ptr<Poco::ThreadPool> pool_;
    std::unique_ptr<net::TCPServer> server_;
    std::uint16_t port_ = 0;
};

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

    auto params = Poco::AutoPtr<net::TCPServerParams>(new net::TCPServerParams);
    params->setMaxThreads(config_.max_threads);
    params->setMaxQueued(config_.max_queued);
    // Poco can miss the wake-up of a thread that is about to wait; this bounds the wait of stop().
    params->setThreadIdleTime(Poco::Timespan(0, 500'000));
    pool_ = std::make_unique<Poco::ThreadPool>("api", 2, config_.max_threads + 1);
    ConnectionLimits limits;
    limits.max_body_bytes = config_.max_body_bytes;
    server_ = std::make_unique<net::TCPServer>(
        new ConnectionFactory(*api_, running_, *streams_, *connections_, limits), *pool_, socket,
        params);
    server_->setConnectionFilter(new AddressFilter(connections_, config_.max_per_address));
    server_->start();
}

Status ApiServer::Impl::start() {
    auto known = tokens_of(config_);
    if (!known) {
        return std::move(known).error().at("management interface");
    }
    api_ = std::make_unique<Api>(Context{book_, providers_, config_.version, config_.build_info},
                                 std::move(*known));
    api_->context().node->knobs.set(config_.knobs);
    streams_ = std::make_unique<Streams>();
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

Status ApiServer::Impl::stage(const Config& next) {
    // The address stays, so it is this one that decides whether tokens are needed.
    Config judged = next;
    judged.host = config_.host;
    auto known = tokens_of(judged);
    if (!known) {
        return std::move(known).error().at("management interface");
    }
    staged_ = Staged{std::move(*known), next.knobs};
    return {};
}

void ApiServer::Impl::commit_staged() {
    if (api_ != nullptr && staged_) {
        api_->replace(std::move(staged_->tokens));
        api_->context().node->knobs.set(std::move(staged_->knobs));
    }
    staged_.reset();
}

void ApiServer::Impl::stop(std::uint32_t grace_ms) {
    if (server_ == nullptr) {
        return;
    }
    try {
        server_->stop();
        streams_->stop();
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

Status check_config(const Config& config) {
    const auto known = tokens_of(config);
    return known ? Status() : Status(known.error());
}

ApiServer::ApiServer(Config config, rules::RuleBook& book, Providers& providers)
    : impl_(std::make_unique<Impl>(std::move(config), book, providers)) {}
ApiServer::~ApiServer() = default;

Status ApiServer::start() {
    return impl_->start();
}
Status ApiServer::stage(const Config& next) {
    return impl_->stage(next);
}
void ApiServer::commit_staged() {
    impl_->commit_staged();
}
void ApiServer::stop(std::uint32_t grace_ms) {
    impl_->stop(grace_ms);
}
std::uint16_t ApiServer::port() const {
    return impl_->port();
}

}  // namespace sluice::admin
