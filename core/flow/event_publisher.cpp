#include "core/flow/event_publisher.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "core/base/log.hpp"
#include "core/flow/event_outlet.hpp"

namespace sluice::flow {
namespace {

// While a reader takes nothing its replay is tried again so often.
constexpr std::chrono::milliseconds kRetry{20};
constexpr std::int64_t kMaxRequestBytes = 1024;

std::string address_of(const std::string& host, std::uint16_t port) {
    return "tcp://" + host + ":" + (port == 0 ? "*" : std::to_string(port));
}

}  // namespace

Result<zmq::socket_t> EventPublisher::bound(zmq::context_t& context, zmq::socket_type type,
                                            const std::string& address) {
    try {
        zmq::socket_t socket(context, type);
        socket.set(zmq::sockopt::linger, 0);
        socket.set(zmq::sockopt::sndhwm, kSendMark);
        socket.set(zmq::sockopt::rcvhwm, kSendMark);
        socket.set(zmq::sockopt::maxmsgsize, kMaxRequestBytes);  // of what comes in
        socket.set(zmq::sockopt::ipv6, address.find('[') != std::string::npos);
        socket.set(zmq::sockopt::tcp_keepalive, 1);
        if (type == zmq::socket_type::router) {
            // A reader that takes nothing is told apart from one that is gone.
            socket.set(zmq::sockopt::router_mandatory, true);
        }
        socket.bind(address);
        return socket;
    } catch (const zmq::error_t& e) {
        return Error{Code::Unavailable, address + ": " + e.what()};
    }
}

EventPublisher::EventPublisher() : wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

EventPublisher::~EventPublisher() {
    if (thread_.joinable()) {
        thread_.request_stop();
        wake();
        thread_.join();
    }
    for (const OutletPtr& outlet : added_) {
        outlet->end();
    }
    if (wake_fd_ >= 0) {
        ::close(wake_fd_);
    }
}

Result<EventPublisher::Sockets> EventPublisher::bind(const std::string& host, std::uint16_t port,
                                                     std::uint16_t replay_port) {
    if (wake_fd_ < 0) {
        return Error{Code::Unavailable, "no descriptor was left at the start"};
    }
    auto pub = bound(context_, zmq::socket_type::xpub, address_of(host, port));
    if (!pub) {
        return std::move(pub).error();
    }
    auto replay = bound(context_, zmq::socket_type::router, address_of(host, replay_port));
    if (!replay) {
        return std::move(replay).error();
    }
    Sockets out;
    out.pub_address = shown(*pub, host);
    out.replay_address = shown(*replay, host);
    out.pub = std::move(*pub);
    out.replay = std::move(*replay);
    return out;
}

std::string EventPublisher::shown(const zmq::socket_t& socket, const std::string& host) {
    const std::string at = socket.get(zmq::sockopt::last_endpoint);
    return "tcp://" + host + at.substr(at.rfind(':'));
}

EventPublisher::OutletPtr EventPublisher::start(Sockets sockets, EventLogPtr log) {
    auto outlet = std::make_shared<Outlet>(std::move(sockets), std::move(log));
    {
        // The mutex is the fence that a socket needs when it changes threads.
        const std::lock_guard lock(mu_);
        added_.push_back(outlet);
        if (!thread_.joinable()) {
            begin();
        }
    }
    wake();
    return outlet;
}

void EventPublisher::begin() {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    ::pthread_setname_np(thread_.native_handle(), "sluice-kv-pub");
}

void EventPublisher::close(const OutletPtr& outlet) {
    {
        const std::lock_guard lock(mu_);
        removed_.push_back(outlet);
    }
    wake();
}

void EventPublisher::wake() noexcept {
    const std::uint64_t one = 1;
    // The counter being full is as good as a write.
    (void)!::write(wake_fd_, &one, sizeof one);
}

void EventPublisher::take_changes() {
    std::uint64_t count = 0;
    (void)!::read(wake_fd_, &count, sizeof count);  // empty when nothing woke us
    std::vector<OutletPtr> removed;
    {
        const std::lock_guard lock(mu_);
        std::move(added_.begin(), added_.end(), std::back_inserter(outlets_));
        added_.clear();
        removed.swap(removed_);
    }
    for (const OutletPtr& outlet : removed) {
        outlet->end();
        std::erase(outlets_, outlet);
    }
}

void EventPublisher::run(const std::stop_token& stop) {
    std::vector<zmq::pollitem_t> items;
    bool has_more = false;
    while (!stop.stop_requested()) {
        items.clear();
        items.push_back({nullptr, wake_fd_, ZMQ_POLLIN, 0});
        bool has_to_retry = false;
        for (const OutletPtr& outlet : outlets_) {
            outlet->add_to(items);
            has_to_retry = has_to_retry || outlet->has_to_retry();
        }
        const long limit = has_more ? 0 : has_to_retry ? kRetry.count() : -1;
        if (::zmq_poll(items.data(), static_cast<int>(items.size()), limit) < 0 && errno != EINTR) {
            log::error("ZeroMQ poll failed", {{"error", ::zmq_strerror(errno)}});
            break;
        }
        take_changes();
        has_more = false;
        for (const OutletPtr& outlet : outlets_) {
            try {
                outlet->turn(context_);
            } catch (const zmq::error_t& e) {
                log::error("KV events are not published", {{"error", e.what()}});
            }
            has_more = has_more || outlet->has_more();
        }
    }
    for (const OutletPtr& outlet : outlets_) {
        outlet->end();
    }
    outlets_.clear();
}

}  // namespace sluice::flow
