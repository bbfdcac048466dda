#include "core/http/server_connection.hpp"

#include <exception>

#include "core/base/log.hpp"
#include "core/http/head_writer.hpp"

namespace sluice::http {
namespace {

constexpr std::chrono::milliseconds kLinger{2000};
constexpr std::size_t kKeptHeadBytes = 2048;
constexpr std::size_t kKeptParts = 64;

}  // namespace

Http1Connection::Http1Connection(Server::Impl& server, net::Accepted accepted)
    : server_(server),
      socket_(std::move(accepted.socket)),
      peer_address_(accepted.peer),
      parser_(server.limits.head) {
    server_.connection_begins(*this);
}

Http1Connection::~Http1Connection() {
    if (in_exchange_) {
        Server::Impl::add(server_.counters.exchanges, ~std::uint64_t{0});
    }
    server_.connection_ends(*this);
}

std::string_view Http1Connection::peer() const noexcept {
    if (peer_.empty()) {
        peer_ = peer_address_.format();
    }
    return peer_;
}

net::Address Http1Connection::local() const noexcept {
    return socket_.local();
}

void Http1Connection::end_now() noexcept {
    departure_.fire();
    socket_.close();
}

net::Task<void> Http1Connection::run() {
    socket_.watch(this);
    for (;;) {
        if (in_.size() == 0) {
            in_.release();
            if (server_.is_draining) {
                break;
            }
            const auto idle = client_idle_.count() >= 0 ? client_idle_ : server_.limits.client_idle;
            const Status ready = co_await socket_.readable(
                {.deadline_us = server_.loop.after(idle), .cancel = &server_.idle});
            if (!ready.ok()) {
                break;
            }
        }
        parser_.reset();
        Head head = in_.size() != 0 ? parse_head() : receive_head();
        if (head != Head::Complete && head != Head::Gone) {
            head = co_await read_request_head(head);
        }
        if (head != Head::Complete) {
            break;
        }
        co_await exchange();
        if (closing_) {
            break;
        }
    }
    socket_.watch(nullptr);
    if (aborted_ && framing_ == BodyKind::UntilClose && head_taken_) {
        socket_.close_reset();  // a plain end would look like the end of the body
    } else if (closing_ && !aborted_ && socket_.is_open() && !socket_.is_hung_up()) {
        co_await linger();
    }
}

Http1Connection::Head Http1Connection::parse_head() {
    switch (parser_.feed(in_.view())) {
        case Parse::Done:
            return Head::Complete;
        case Parse::Failed:
            return Head::Refused;
        case Parse::NeedMore:
            break;
    }
    return Head::Partial;
}

// Takes what is there.
Http1Connection::Head Http1Connection::receive_head() {
    if (!in_) {
        in_ = server_.loop.buffers().take(net::kSmallBufferBytes);
    } else if (in_.room() == 0) {
        in_.grow(in_.capacity() * 2);  // the parser stops at its limit
    }
    const auto got = socket_.recv_now({in_.data() + in_.size(), in_.room()});
    if (!got.ok()) {
        return got.error().code == Code::Unavailable ? Head::Partial : Head::Gone;
    }
    if (*got == 0) {
        return Head::Gone;
    }
    in_.resize(in_.size() + *got);
    return parse_head();
}

// Goes on with a head that is not complete, or answers one that is refused.
net::Task<Http1Connection::Head> Http1Connection::read_request_head(Head head) {
    const std::uint64_t deadline_us = server_.loop.after(server_.limits.header);
    while (head == Head::Partial) {
        const Status ready = co_await socket_.readable({.deadline_us = deadline_us});
        if (!ready.ok()) {
            if (ready.error().code == Code::Timeout && in_.size() != 0) {
                co_await refuse(408, "the request head took too long");
                co_return Head::Refused;
            }
            co_return Head::Gone;
        }
        head = receive_head();
    }
    if (head == Head::Refused) {
        co_await refuse(parser_.error_status(), parser_.error_text());
    }
    co_return head;
}

void Http1Connection::begin_exchange() noexcept {
    const Framing framing = parser_.framing();
    message_bytes_ = parser_.head_bytes();
    bytes_received_ = message_bytes_;
    started_us_ = server_.loop.now_us();
    client_idle_ = std::chrono::milliseconds(-1);
    send_deadline_us_ = net::kNever;
    body_state_ = framing.kind == BodyKind::None ? Body::Read : Body::Unread;
    bytes_sent_ = 0;
    head_taken_ = drops_body_ = finished_ = aborted_ = false;
    closing_ = !parser_.keep_alive();
    in_exchange_ = true;
    Server::Impl::add(server_.counters.requests, 1);
    Server::Impl::add(server_.counters.exchanges, 1);
}

void Http1Connection::end_exchange() {
    in_exchange_ = false;
    Server::Impl::add(server_.counters.exchanges, ~std::uint64_t{0});
    if (departure_.fired()) {
        closing_ = true;
        if (!finished_) {
            Server::Impl::add(server_.counters.departed, 1);
        }
    }
    closing_ = closing_ || aborted_ || server_.is_draining || !is_body_consumed();
    body_.release();
    if (next_) {
        in_ = std::move(next_);
        next_.release();
    } else {
        in_.consume(message_bytes_);
    }
    // An unusual exchange must not make an idle connection dear.
    if (head_out_.capacity() > kKeptHeadBytes) {
        std::string().swap(head_out_);
    }
    if (parts_.capacity() > kKeptParts) {
        std::vector<iovec>().swap(parts_);
    }
}

net::Task<void> Http1Connection::exchange() {
    begin_exchange();
    try {
        co_await server_.handler.handle(*this);
    } catch (const std::exception& e) {
        log::error("a request handler threw", {{"what", e.what()}});
    } catch (...) {
        log::error("a request handler threw something");
    }
    if (!finished_) {
        if (!head_taken_ && !aborted_ && !departure_.fired()) {
            log::error("a request was left without a response");
            co_await refuse(500, "internal error");
        } else {
            abort();
        }
    }
    end_exchange();
}

// An answer of the connection's own, after which it ends.
net::Task<void> Http1Connection::refuse(int status, std::string_view message) {
    closing_ = true;
    body_state_ = Body::Failed;  // whatever still comes is not a request
    Server::Impl::add(server_.counters.refused, 1);
    server_.handler.refused(status);
    const std::string body = server_.handler.error_body(status, message);
    const Header type{"Content-Type", "application/json"};
    head_out_.clear();
    write_response_head(head_out_, status, {}, {&type, 1}, Framing::of_length(body.size()), true);
    parts_.clear();
    parts_.push_back({head_out_.data(), head_out_.size()});
    parts_.push_back({const_cast<char*>(body.data()), body.size()});
    Status sent;
    if (!write_now(sent)) {
        sent = co_await write_rest();
    }
    if (sent.ok()) {
        finished_ = true;
    } else {
        aborted_ = true;
    }
}

// Closing with unread bytes sends RST, which may cost the client the response it has not read yet.
// So the sending side ends first, and what still comes is dropped for a while.
net::Task<void> Http1Connection::linger() {
    if (is_body_consumed() && in_.size() == 0 && !socket_.is_readable()) {
        co_return;
    }
    socket_.shutdown_send();
    in_ = server_.loop.buffers().take(net::kBufferBytes);
    const net::Wait wait{.deadline_us = server_.loop.after(kLinger), .cancel = &server_.idle};
    for (;;) {
        const auto got = co_await socket_.recv({in_.data(), in_.capacity()}, wait);
        if (!got.ok() || *got == 0) {
            co_return;
        }
    }
}

}  // namespace sluice::http
