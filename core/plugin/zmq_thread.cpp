#include "core/plugin/zmq_thread.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/log.hpp"

namespace sluice::plugin {
namespace {

constexpr std::size_t kMessagesATurn = 256;
constexpr std::size_t kBytesATurn = 8U << 20U;
constexpr int kMaxEventsATurn = 64;

bool is_tcp_address(std::string_view address) noexcept {
    constexpr std::string_view kScheme = "tcp://";
    const std::size_t colon = address.rfind(':');
    if (!address.starts_with(kScheme) || address.size() > 255 || colon <= kScheme.size()) {
        return false;
    }
    const std::string_view port = address.substr(colon + 1);
    if (port.empty() || port.size() > 5 ||
        !std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        return false;
    }
    const int number = std::stoi(std::string(port));
    return number > 0 && number <= 65535;
}

zmq::socket_t make_socket(zmq::context_t& context, const ZmqSpec& spec) {
    zmq::socket_t socket(context,
                         spec.is_dealer ? zmq::socket_type::dealer : zmq::socket_type::sub);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::rcvhwm, static_cast<int>(std::min(spec.hwm, 10'000'000U)));
    socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(spec.max_message_bytes));
    socket.set(zmq::sockopt::reconnect_ivl, 100);
    socket.set(zmq::sockopt::reconnect_ivl_max, 5000);
    socket.set(zmq::sockopt::connect_timeout, 2000);
    // A peer whose machine vanished is noticed in about 25 s.
    socket.set(zmq::sockopt::tcp_keepalive, 1);
    socket.set(zmq::sockopt::tcp_keepalive_idle, 10);
    socket.set(zmq::sockopt::tcp_keepalive_intvl, 5);
    socket.set(zmq::sockopt::tcp_keepalive_cnt, 3);
    socket.set(zmq::sockopt::ipv6, spec.address.find('[') != std::string::npos);
    if (spec.is_dealer) {
        // Nothing is queued for a peer that is not there.
        socket.set(zmq::sockopt::immediate, true);
    } else {
        socket.set(zmq::sockopt::subscribe, spec.topic);
    }
    return socket;
}

}  // namespace

// A link that comes up or goes down is reported by ZeroMQ's own I/O thread, which waits for ever
// when nobody is there to be told: every socket of the process would stand still. So reporting ends
// before the end that listens is closed.
ZmqThread::Slot::~Slot() {
    if (socket.handle() != nullptr) {
        // Fails only for what is no socket.
        (void)::zmq_socket_monitor(socket.handle(), nullptr, 0);
    }
}

ZmqThread::ZmqThread(EventThread& events) : events_(events) {}

ZmqThread::~ZmqThread() {
    stop();
}

Status ZmqThread::start() {
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) {
        return Error{Code::Io, std::string("eventfd: ") + std::strerror(errno)};
    }
    try {
        context_ = std::make_unique<zmq::context_t>(1);
        context_->set(zmq::ctxopt::max_sockets, 65'536);
    } catch (const zmq::error_t& e) {
        return Error{Code::Io, std::string("ZeroMQ: ") + e.what()};
    }
    {
        const std::lock_guard lock(mu_);
        is_running_ = true;
    }
    thread_ = std::jthread([this](const std::stop_token& token) { run(token); });
    ::pthread_setname_np(thread_.native_handle(), "sluice-zmq");
    return {};
}

void ZmqThread::stop() {
    {
        const std::lock_guard lock(mu_);
        if (!is_running_) {
            return;
        }
        is_running_ = false;
    }
    thread_.request_stop();
    wake();
    thread_.join();
    added_.clear();
    removed_.clear();
    context_.reset();
    ::close(wake_fd_);
    wake_fd_ = -1;
}

void ZmqThread::wake() noexcept {
    const std::uint64_t one = 1;
    // The counter being full is as good as a write.
    (void)!::write(wake_fd_, &one, sizeof one);
}

Result<std::shared_ptr<ZmqLink>> ZmqThread::open(ZmqSpec spec, ZmqHandler handler) {
    if (!is_tcp_address(spec.address)) {
        return Error{Code::Invalid, "the address must be tcp://HOST:PORT"};
    }
    auto slot = std::make_unique<Slot>();
    slot->link = std::make_shared<ZmqLink>(*this, events_, std::move(spec), std::move(handler));
    const std::string& address = slot->link->spec().address;
    {
        const std::lock_guard lock(mu_);
        if (!is_running_) {
            return Error{Code::Unavailable, "sockets are being closed down"};
        }
    }
    try {
        slot->socket = make_socket(*context_, slot->link->spec());
        const std::string monitor = "inproc://link-" + std::to_string(next_monitor_++);
        if (::zmq_socket_monitor(slot->socket.handle(), monitor.c_str(),
                                 ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0) {
            throw zmq::error_t();
        }
        slot->monitor = zmq::socket_t(*context_, zmq::socket_type::pair);
        slot->monitor.set(zmq::sockopt::linger, 0);
        slot->monitor.connect(monitor);
        slot->socket.connect(address);
    } catch (const zmq::error_t& e) {
        return Error{Code::Invalid, address + ": " + e.what()};
    }
    auto link = slot->link;
    {
        const std::lock_guard lock(mu_);
        // The mutex is the fence that a socket needs when it changes threads.
        added_.push_back(std::move(slot));
    }
    wake();
    return link;
}

void ZmqThread::remove(std::shared_ptr<ZmqLink> link) {
    const std::lock_guard lock(mu_);
    if (is_running_) {
        removed_.push_back(std::move(link));
        wake();
    }
}

void ZmqThread::take_changes() {
    std::uint64_t count = 0;
    (void)!::read(wake_fd_, &count, sizeof count);  // empty when another wake took it
    std::vector<std::shared_ptr<ZmqLink>> removed;
    {
        const std::lock_guard lock(mu_);
        std::move(added_.begin(), added_.end(), std::back_inserter(slots_));
        added_.clear();
        removed.swap(removed_);
    }
    for (const auto& link : removed) {
        std::erase_if(slots_, [&](const auto& slot) { return slot->link == link; });
    }
}

void ZmqThread::run(const std::stop_token& stop) {
    std::vector<zmq::pollitem_t> items;
    while (!stop.stop_requested()) {
        items.clear();
        items.push_back({nullptr, wake_fd_, ZMQ_POLLIN, 0});
        for (const auto& slot : slots_) {
            const bool has_output = slot->link->has_output();
            items.push_back({slot->socket.handle(), 0,
                             static_cast<short>(ZMQ_POLLIN | (has_output ? ZMQ_POLLOUT : 0)), 0});
            items.push_back({slot->monitor.handle(), 0, ZMQ_POLLIN, 0});
        }
        if (::zmq_poll(items.data(), static_cast<int>(items.size()), -1) < 0 && errno != EINTR) {
            log::error("ZeroMQ poll failed", {{"error", ::zmq_strerror(errno)}});
            break;
        }
        try {
            for (std::size_t i = 0; i < slots_.size(); ++i) {
                Slot& slot = *slots_[i];
                if (items[2 * i + 2].revents != 0) {
                    read_monitor(slot);
                }
                if ((items[2 * i + 1].revents & ZMQ_POLLIN) != 0) {
                    receive(slot);
                }
                if ((items[2 * i + 1].revents & ZMQ_POLLOUT) != 0) {
                    send(slot);
                }
            }
        } catch (const zmq::error_t& e) {
            log::error("ZeroMQ failed", {{"error", e.what()}});
        }
        if (items[0].revents != 0) {
            take_changes();
        }
    }
    slots_.clear();
}

void ZmqThread::read_monitor(Slot& slot) {
    for (int i = 0; i < kMaxEventsATurn; ++i) {
        zmq::message_t event;
        zmq::message_t address;
        if (!slot.monitor.recv(event, zmq::recv_flags::dontwait) ||
            !slot.monitor.recv(address, zmq::recv_flags::dontwait)) {
            return;
        }
        std::uint16_t what = 0;
        if (event.size() < sizeof what) {
            return;
        }
        std::memcpy(&what, event.data(), sizeof what);
        slot.link->link(what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    }
}

void ZmqThread::receive(Slot& slot) {
    std::size_t bytes = 0;
    for (std::size_t n = 0; n < kMessagesATurn && bytes < kBytesATurn; ++n) {
        ZmqFrames frames;
        std::size_t message_bytes = 0;
        bool has_more = true;
        bool is_too_much = false;
        while (has_more) {
            zmq::message_t frame;
            if (!slot.socket.recv(frame, zmq::recv_flags::dontwait)) {
                return;  // messages arrive whole: only before a first frame
            }
            has_more = frame.more();
            message_bytes += frame.size();
            is_too_much = is_too_much || frames.size() == ZmqLink::kMaxFrames ||
                          message_bytes > slot.link->spec().max_message_bytes;
            if (!is_too_much) {
                frames.push_back(std::move(frame));
            }
        }
        bytes += message_bytes;
        // A connection's first message never comes before word of the connection: the monitor had
        // that when the message became visible.
        read_monitor(slot);
        if (is_too_much) {
            slot.link->lost();
        } else {
            slot.link->received(std::move(frames));
        }
    }
}

void ZmqThread::send(Slot& slot) {
    for (std::size_t n = 0; n < kMessagesATurn; ++n) {
        ZmqFrames frames = slot.link->next_output();
        if (frames.empty()) {
            return;
        }
        for (std::size_t i = 0; i < frames.size(); ++i) {
            const bool is_last = i + 1 == frames.size();
            zmq::message_t copy;
            copy.copy(frames[i]);
            const auto flags = zmq::send_flags::dontwait |
                               (is_last ? zmq::send_flags::none : zmq::send_flags::sndmore);
            if (!slot.socket.send(copy, flags)) {
                // Only the first frame can be refused; then nothing of the message was taken.
                slot.link->unsent(std::move(frames));
                return;
            }
        }
    }
}

}  // namespace sluice::plugin
