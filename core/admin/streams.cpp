#include "core/admin/streams.hpp"

#include <Poco/Exception.h>
#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/base/metrics.hpp"

namespace sluice::admin {
namespace {

namespace net = Poco::Net;

// How often sources are asked; what a reader waits at most for what has happened.
constexpr std::chrono::milliseconds kTick{10};
// Of the kernel; more would only let a stuck reader hold more.
constexpr int kSendBufferBytes = 64 * 1024;

metrics::Gauge& open_streams() {
    static metrics::Gauge& gauge =
        metrics::registry().gauge("sluice_api_streams", "Event streams that are open.");
    return gauge;
}

metrics::Counter& dropped_streams() {
    static metrics::Counter& counter =
        metrics::registry().counter("sluice_api_streams_dropped_total",
                                    "Event streams that were ended because their reader was slow.");
    return counter;
}

std::string head_of(const Response& response) {
    std::string out = "HTTP/1.1 200 OK\r\nContent-Type: " + response.content_type +
                      "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                      "X-Frame-Options: DENY\r\n"
                      "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
                      "Referrer-Policy: no-referrer\r\nServer: sluice\r\nConnection: close\r\n";
    for (const auto& [name, value] : response.headers) {
        out += name + ": " + value + "\r\n";
    }
    return out + "\r\n";
}

bool would_block(int error) noexcept {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

// A client of a stream has nothing more to say; what it says is dropped, its end is noticed.
bool is_gone(int fd) noexcept {
    std::array<char, 512> ignored{};
    const ssize_t n = ::recv(fd, ignored.data(), ignored.size(), MSG_DONTWAIT);
    return n == 0 || (n < 0 && !would_block(errno));
}

}  // namespace

Response too_many_streams() {
    Response out = refusal_response(
        {503, "too_many_streams", "", "there are as many event streams as there may be", ""});
    out.headers.emplace_back("Retry-After", "5");
    return out;
}

bool Streams::reserve() {
    const std::lock_guard lock(mu_);
    if (is_stopped_ || count_ >= limits_.max_streams) {
        return false;
    }
    ++count_;
    return true;
}

bool Streams::add(const net::StreamSocket& socket, const Response& response) {
    if (!reserve()) {
        return false;
    }
    start({socket, response.stream, head_of(response), now_us(), now_us()});
    return true;
}

void Streams::start(Stream stream) {
    // Fails only for a socket that is no more, which the first send notices.
    (void)::setsockopt(stream.socket.impl()->sockfd(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes,
                       sizeof kSendBufferBytes);
    const std::lock_guard lock(mu_);
    if (is_stopped_) {
        return;
    }
    open_streams().add(1);
    incoming_.push_back(std::move(stream));
    if (!thread_.joinable()) {
        thread_ = std::jthread([this](const std::stop_token& token) { run(token); });
        ::pthread_setname_np(thread_.native_handle(), "sluice-streams");
    }
    wake_.notify_all();
}

void Streams::stop() {
    std::jthread thread;
    {
        const std::lock_guard lock(mu_);
        is_stopped_ = true;
        thread = std::move(thread_);
    }
    if (thread.joinable()) {
        thread.request_stop();
        thread.join();
    }
}

std::size_t Streams::size() const {
    const std::lock_guard lock(mu_);
    return count_;
}

void Streams::run(const std::stop_token& token) {
    std::vector<Stream> live;
    while (true) {
        {
            std::unique_lock lock(mu_);
            const auto has_new = [this] {
                return !incoming_.empty();
            };
            if (live.empty()) {
                wake_.wait(lock, token, has_new);
            } else {
                wake_.wait_for(lock, token, kTick, has_new);
            }
            std::move(incoming_.begin(), incoming_.end(), std::back_inserter(live));
            incoming_.clear();
        }
        if (token.stop_requested()) {
            break;
        }
        const std::uint64_t now = now_us();
        std::erase_if(live, [&](Stream& stream) {
            const Fate fate = step(stream, now);
            if (fate != Fate::Goes) {
                end(stream, fate);
            }
            return fate != Fate::Goes;
        });
    }
    for (Stream& stream : live) {
        end(stream, Fate::Gone);
    }
}

Streams::Fate Streams::step(Stream& stream, std::uint64_t now) const {
    const int fd = stream.socket.impl()->sockfd();
    if (is_gone(fd)) {
        return Fate::Gone;
    }
    if (stream.waiting.empty()) {
        stream.moved_us = now;
    }
    if (stream.waiting.size() < limits_.max_waiting_bytes && !stream.source->next(stream.waiting)) {
        return Fate::Slow;
    }
    if (stream.waiting.empty() && now - stream.written_us >= limits_.heartbeat_us) {
        stream.waiting = ":\n\n";
    }
    if (stream.waiting.empty()) {
        return Fate::Goes;
    }
    const ssize_t sent =
        ::send(fd, stream.waiting.data(), stream.waiting.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && !would_block(errno)) {
        return Fate::Gone;
    }
    if (sent > 0) {
        stream.waiting.erase(0, static_cast<std::size_t>(sent));
        stream.moved_us = now;
        stream.written_us = now;
    }
    const bool is_stuck = !stream.waiting.empty() && now - stream.moved_us >= limits_.stall_us;
    return is_stuck ? Fate::Slow : Fate::Goes;
}

void Streams::end(Stream& stream, Fate fate) {
    if (fate == Fate::Slow) {
        dropped_streams().add();
        log::info("event stream ended: its reader is too slow");
    }
    open_streams().add(-1);
    try {
        stream.socket.close();
    } catch (const Poco::Exception& e) {
        log::debug("event stream did not close cleanly", {{"why", e.displayText()}});
    }
    const std::lock_guard lock(mu_);
    --count_;
}

}  // namespace sluice::admin
