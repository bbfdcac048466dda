#include "tests/sim/support/exchange.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

namespace sluice::sim::http {
namespace {

std::string_view phrase(int status) noexcept {
    switch (status) {
        case 200:
            return "OK";
        case 307:
            return "Temporary Redirect";
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 409:
            return "Conflict";
        case 429:
            return "Too Many Requests";
        case 503:
            return "Service Unavailable";
        default:
            return "Internal Server Error";
    }
}

std::string http_date() {
    const std::time_t now = std::time(nullptr);
    std::tm tm{};
    gmtime_r(&now, &tm);
    std::array<char, 64> buf{};
    const std::size_t n = std::strftime(buf.data(), buf.size(), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    return {buf.data(), n};
}

std::string chunk(std::string_view data) {
    static constexpr std::string_view kHex = "0123456789abcdef";
    std::string size;
    for (std::size_t n = data.size(); n > 0; n >>= 4U) {
        size.insert(size.begin(), kHex[n & 15U]);
    }
    std::string out = size.empty() ? "0" : size;
    out += "\r\n";
    out += data;
    out += "\r\n";
    return out;
}

}  // namespace

Exchange::Exchange(int fd, RequestParser& parser)
    : fd_(fd), wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), parser_(parser) {}

Exchange::~Exchange() {
    ::close(wake_fd_);
}

void Exchange::begin(const Request& request) {
    is_head_request_ = request.method == "HEAD";
    closes_ = request.wants_close();
    started_ = false;
    request_id_.clear();
    std::uint64_t stale = 0;
    // Signals left over from the request before: nobody waits for them any more.
    (void)!::read(wake_fd_, &stale, sizeof stale);
}

std::string Exchange::head(int status, const Headers& fields) const {
    std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
    out += phrase(status);
    out += "\r\ndate: " + http_date() + "\r\nserver: uvicorn\r\n";
    for (const auto& [key, value] : fields) {
        out += key + ": " + value + "\r\n";
    }
    return out + "\r\n";
}

void Exchange::send(const Response& r) {
    if (peer_left()) {
        return;
    }
    Headers fields = r.extra;
    if (r.sends_length) {
        fields.emplace_back("content-length", std::to_string(r.body.size()));
    }
    if (!r.content_type.empty()) {
        fields.emplace_back("content-type", r.content_type);
    }
    if (r.has_vary) {
        fields.emplace_back("vary", "Origin");
    }
    if (!request_id_.empty()) {
        fields.emplace_back("x-request-id", request_id_);
    }
    if (closes_) {
        fields.emplace_back("connection", "close");
    }
    std::string out = head(r.status, fields);
    if (!is_head_request_) {
        out += r.body;
    }
    started_ = true;
    write(out);
}

void Exchange::open_stream(bool has_vary) {
    if (peer_left()) {
        return;
    }
    Headers fields{{"content-type", "text/event-stream; charset=utf-8"}};
    if (has_vary) {
        fields.emplace_back("vary", "Origin");
    }
    if (!request_id_.empty()) {
        fields.emplace_back("x-request-id", request_id_);
    }
    if (closes_) {
        fields.emplace_back("connection", "close");
    }
    fields.emplace_back("transfer-encoding", "chunked");
    started_ = true;
    write(head(200, fields));
}

void Exchange::event(std::string_view data) {
    write(chunk(data));
}

void Exchange::close_stream() {
    write("0\r\n\r\n");
}

// A peer that has closed or half-closed gets no byte: the engine drops its transport at once.
bool Exchange::peer_left() {
    pollfd p{fd_, POLLIN | POLLRDHUP, 0};
    if (!gone_ && ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
        gone_ = true;
    }
    return gone_;
}

bool Exchange::read_some() {
    std::array<char, 65536> buf{};
    const ssize_t n = ::recv(fd_, buf.data(), buf.size(), 0);
    if (n > 0) {
        parser_.feed({buf.data(), static_cast<std::size_t>(n)});
        return true;
    }
    if (n < 0 && errno == EINTR) {
        return true;
    }
    gone_ = true;
    return false;
}

Wake Exchange::wait(int ms) {
    for (;;) {
        const bool reads = parser_.buffered() < kMaxAhead;
        std::array<pollfd, 2> p{
            {{fd_, static_cast<short>(reads ? POLLIN | POLLRDHUP : POLLRDHUP), 0},
             {wake_fd_, POLLIN, 0}}};
        const int n = ::poll(p.data(), p.size(), ms);
        if (n == 0) {
            return Wake::Timeout;
        }
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return Wake::Gone;
        }
        if ((p[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
            gone_ = true;
            return Wake::Gone;
        }
        if ((p[0].revents & POLLIN) != 0 && !read_some()) {
            return Wake::Gone;
        }
        if ((p[1].revents & POLLIN) != 0) {
            std::uint64_t count = 0;
            (void)!::read(wake_fd_, &count, sizeof count);  // only clears the signal
            return Wake::Signal;
        }
    }
}

void Exchange::wake() const noexcept {
    const std::uint64_t one = 1;
    (void)!::write(wake_fd_, &one, sizeof one);  // a full counter is a pending signal already
}

void Exchange::reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    gone_ = true;
}

void Exchange::write(std::string_view bytes) {
    while (!gone_ && !bytes.empty()) {
        const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(n));
        } else if (n < 0 && errno != EINTR) {
            gone_ = true;
        }
    }
}

}  // namespace sluice::sim::http
