#include "core/admin/connection.hpp"

#include <Poco/DateTimeFormat.h>
#include <Poco/DateTimeFormatter.h>
#include <Poco/Exception.h>
#include <Poco/Net/StreamSocket.h>
#include <Poco/Net/TCPServerConnection.h>
#include <Poco/Timestamp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/admin/guarded_socket.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/http/body_decoder.hpp"
#include "core/http/head_parser.hpp"

namespace sluice::admin {
namespace {

namespace net = Poco::Net;

constexpr std::size_t kReadBytes = 16U << 10U;
// What a client still sends after it was answered is read over so far, so that closing does not
// destroy the answer on its way.
constexpr std::size_t kMaxLeftBytes = 1U << 20U;
constexpr std::uint64_t kLingerUs = 1'000'000;

Response bad(int status, const char* code, std::string message) {
    return refusal_response({status, code, "", std::move(message), ""});
}

// What the parser refuses, by status; the rest is "malformed_request".
constexpr std::pair<int, const char*> kHeadCodes[] = {
    {417, "expectation_failed"},
    {431, "head_too_large"},
    {501, "not_supported"},
    {505, "version_not_supported"},
};

Response bad_head(int status, const char* why) {
    const auto* row = std::find_if(std::begin(kHeadCodes), std::end(kHeadCodes),
                                   [status](const auto& one) { return one.first == status; });
    return bad(status, row == std::end(kHeadCodes) ? "malformed_request" : row->second, why);
}

class Scope {
public:
    explicit Scope(Running& running) : running_(running) { running_.enter(); }
    ~Scope() { running_.leave(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

private:
    Running& running_;
};

// The turn of a document; empty where the body is none.
class DocumentTurn {
public:
    DocumentTurn(Running& running, bool is_document)
        : running_(is_document && running.enter_document() ? &running : nullptr),
          is_refused_(is_document && running_ == nullptr) {}
    ~DocumentTurn() {
        if (running_ != nullptr) {
            running_->leave_document();
        }
    }
    DocumentTurn(const DocumentTurn&) = delete;
    DocumentTurn& operator=(const DocumentTurn&) = delete;
    bool is_refused() const noexcept { return is_refused_; }

private:
    Running* const running_;
    const bool is_refused_;
};

class Connection final : public net::TCPServerConnection {
public:
    Connection(const net::StreamSocket& socket, Api& api, Running& running, Streams& streams,
               Connections& connections, const ConnectionLimits& limits)
        : TCPServerConnection(socket),
          api_(api),
          running_(running),
          streams_(streams),
          connections_(connections),
          limits_(limits),
          parser_({limits.max_head_bytes, limits.max_fields}) {}

    void run() override {
        try {
            serve();
        } catch (const Poco::Exception& e) {
            // The client is gone or too slow; there is nobody to answer.
            log::debug("management connection ended", {{"why", e.displayText()}});
        } catch (const std::exception& e) {
            log::warn("management request failed", {{"why", e.what()}});
        }
        connections_.leave();
    }

private:
    void serve();
    // False: the client said no more.
    bool receive();
    std::optional<Response> read_head();
    std::optional<Response> read_body(std::string& out, std::size_t limit);
    Response respond(Request& request);
    void write(const Response& answer);
    void linger();
    void send_all(std::string_view bytes);

    Api& api_;
    Running& running_;
    Streams& streams_;
    Connections& connections_;
    const ConnectionLimits& limits_;
    http::RequestParser parser_;
    std::string in_;  // the head, and what came with it
    bool is_unread_ = false;
    bool is_head_only_ = false;
};

bool Connection::receive() {
    std::array<char, kReadBytes> buffer;
    const int n = socket().receiveBytes(buffer.data(), static_cast<int>(buffer.size()));
    if (n <= 0) {
        return false;
    }
    in_.append(buffer.data(), static_cast<std::size_t>(n));
    return true;
}

std::optional<Response> Connection::read_head() {
    http::Parse state = http::Parse::NeedMore;
    try {
        while (state == http::Parse::NeedMore) {
            if (!receive()) {
                return bad(400, "malformed_request", "the head is incomplete");
            }
            state = parser_.feed(in_);
        }
    } catch (const Poco::TimeoutException&) {
        is_unread_ = false;  // nothing more comes
        return bad(408, "request_timeout", "the request did not arrive in time");
    }
    if (state == http::Parse::Failed) {
        return bad_head(parser_.error_status(), parser_.error_text());
    }
    return std::nullopt;
}

void Connection::serve() {
    is_unread_ = true;
    if (auto refusal = read_head()) {
        if (in_.empty()) {
            return;  // it said nothing: a check whether the port is open
        }
        write(*refusal);
        return;
    }
    const Scope scope(running_);
    const http::RequestHead& head = parser_.head();
    is_head_only_ = head.method == "HEAD";
    Request request;
    request.method = head.method;
    request.path = head.path;
    request.query = head.query;
    request.host = head.authority;
    request.authorization = head.header("Authorization");
    request.content_type = head.header("Content-Type");
    request.origin = head.header("Origin");
    request.asked_method = head.header("Access-Control-Request-Method");
    request.address = socket().peerAddress().host().toString();
    is_unread_ = parser_.framing().kind != http::BodyKind::None;
    Response answer = respond(request);
    if (answer.stream && !is_head_only_) {
        const int fd = socket().impl()->sockfd();
        connections_.set_apart(fd, true);
        if (streams_.add(socket(), answer)) {
            return;  // it is in their hands
        }
        connections_.set_apart(fd, false);
        answer = too_many_streams();
    }
    write(answer);
}

Response Connection::respond(Request& request) {
    bool wants_body = false;
    if (auto early = api_.admit(request, wants_body, now_us())) {
        return std::move(*early);
    }
    const DocumentTurn turn(running_, wants_body && request.max_body > limits_.max_body_bytes);
    if (turn.is_refused()) {
        return bad(503, "restore_running",
                   "a restore or an import is running; try again when it is done");
    }
    if (wants_body) {
        const std::size_t limit = request.max_body == 0 ? limits_.max_body_bytes : request.max_body;
        if (auto refusal = read_body(request.body, limit)) {
            return std::move(*refusal);
        }
        is_unread_ = false;
    }
    return api_.answer(request);
}

std::optional<Response> Connection::read_body(std::string& out, std::size_t limit) {
    const http::Framing framing = parser_.framing();
    if (framing.kind == http::BodyKind::None && parser_.head().find("Content-Length") == nullptr) {
        return bad(411, "length_required", "a body needs Content-Length or chunked transfer");
    }
    const auto too_large = [limit] {
        return bad(413, "body_too_large",
                   "the body is longer than " + std::to_string(limit) + " bytes");
    };
    if (framing.length > limit) {
        return too_large();
    }
    if (parser_.expects_continue()) {
        send_all("HTTP/1.1 100 Continue\r\n\r\n");
    }
    http::BodyDecoder decoder(framing);
    std::string held = in_.substr(parser_.head_bytes());
    in_.clear();
    try {
        while (true) {
            std::string_view rest = held;
            while (!rest.empty() && decoder.state() == http::BodyDecoder::State::More) {
                out += decoder.next(rest);
                if (out.size() > limit) {
                    return too_large();
                }
            }
            if (decoder.done()) {
                return std::nullopt;
            }
            if (decoder.state() == http::BodyDecoder::State::Failed) {
                return bad(400, "malformed_request", decoder.error_text());
            }
            in_.clear();
            if (!receive()) {
                return bad(400, "body_incomplete", "the body ended before its length");
            }
            held.swap(in_);
        }
    } catch (const Poco::TimeoutException&) {
        is_unread_ = false;
        return bad(408, "request_timeout", "the body did not arrive in time");
    }
}

void Connection::write(const Response& answer) {
    std::string out = "HTTP/1.1 " + std::to_string(answer.status) + " ";
    out += http::reason_phrase(answer.status);
    const auto field = [&out](std::string_view name, std::string_view value) {
        out.append("\r\n").append(name).append(": ").append(value);
    };
    field("Date",
          Poco::DateTimeFormatter::format(Poco::Timestamp(), Poco::DateTimeFormat::HTTP_FORMAT));
    field("Server", "sluice");
    field("Connection", "close");
    field("Cache-Control", "no-store");
    field("X-Content-Type-Options", "nosniff");
    field("X-Frame-Options", "DENY");
    field("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    field("Referrer-Policy", "no-referrer");
    for (const auto& [name, value] : answer.headers) {
        field(name, value);
    }
    if (answer.status != 204) {
        field("Content-Type", answer.content_type);
    }
    if (answer.status != 204) {
        field("Content-Length", std::to_string(answer.body.size()));
    }
    out += "\r\n\r\n";
    if (!is_head_only_ && answer.status != 204) {
        out += answer.body;
    }
    send_all(out);
    linger();
}

void Connection::send_all(std::string_view bytes) {
    socket().sendBytes(bytes.data(), static_cast<int>(bytes.size()));
}

void Connection::linger() {
    if (!is_unread_) {
        return;
    }
    socket().shutdownSend();
    const std::uint64_t by_us = now_us() + kLingerUs;
    for (std::size_t seen = 0; seen < kMaxLeftBytes && now_us() < by_us; seen += in_.size()) {
        in_.clear();
        const auto left = static_cast<Poco::Timespan::TimeDiff>(by_us - std::min(by_us, now_us()));
        if (!socket().poll(Poco::Timespan(left), net::Socket::SELECT_READ) || !receive()) {
            return;
        }
    }
}

}  // namespace

void Running::enter() {
    const std::lock_guard lock(mu_);
    ++count_;
}

void Running::leave() {
    {
        const std::lock_guard lock(mu_);
        --count_;
    }
    idle_.notify_all();
}

void Running::wait_idle(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mu_);
    idle_.wait_for(lock, at_most, [this] { return count_ == 0; });
}

net::TCPServerConnection* ConnectionFactory::createConnection(const net::StreamSocket& socket) {
    return new Connection(socket, api_, running_, streams_, connections_,
                          limits_);  // Poco deletes it
}

}  // namespace sluice::admin
