#include <algorithm>

#include "core/http/upstream_impl.hpp"
#include "core/net/keepalive.hpp"

namespace sluice::http {
namespace {

constexpr std::size_t kMaxHeadBytes = HeadLimits{}.max_bytes;
// An engine that sends nothing else, faster than it is read, is never waited for.
constexpr int kMaxInterim = 64;

iovec part(std::string_view bytes) noexcept {
    return {const_cast<char*>(bytes.data()), bytes.size()};
}

}  // namespace

// -- Connection

void UpstreamStream::Connection::on_hangup() noexcept {
    ++pool.stats.idle_dropped;
    pool.drop_idle(*this);
}

bool UpstreamStream::Connection::may_be_kept() const noexcept {
    return is_complete && !is_spoiled && generation == bucket.generation && parser.keep_alive() &&
           framing.kind != BodyKind::UntilClose && !socket.is_hung_up() && !socket.is_readable();
}

// After a time-out the caller may go on waiting; if not, the answer is incomplete and the
// connection is not kept for that.
Error UpstreamStream::Connection::failed(Error error) noexcept {
    is_spoiled = is_spoiled || error.code != Code::Timeout;
    return error;
}

void UpstreamStream::Connection::begin(std::string_view request_head) {
    parser.reset();
    in.release();
    at = 0;
    wanted = net::kBufferBytes;
    framing = Framing::none();
    sent = received = 0;
    interim = 0;
    is_head_request = request_head.substr(0, 5) == "HEAD ";
    has_head = is_complete = is_spoiled = was_closed = false;
}

// Takes what is there, lending the buffer only now. Code::Unavailable: nothing yet.
Result<std::size_t> UpstreamStream::Connection::receive() {
    if (!in) {
        in = pool.loop.buffers().take(wanted);
    } else if (in.room() == 0) {
        in.grow(std::min(in.capacity() * 2, 2 * kMaxHeadBytes));
    }
    auto got = socket.recv_now({in.data() + in.size(), in.room()});
    if (got.ok()) {
        in.resize(in.size() + *got);
        received += *got;
        // A reader that keeps finding its buffer full moves more bytes a call.
        wanted = in.room() == 0 ? net::kLargeBufferBytes : net::kBufferBytes;
    }
    return got;
}

net::Task<Status> UpstreamStream::Connection::send(net::Wait wait) {
    std::size_t total = 0;
    for (const iovec& p : parts) {
        total += p.iov_len;
    }
    const auto moved = co_await socket.send(parts, wait, true);
    if (moved.ok()) {
        sent += *moved;
        if (*moved != total) {
            is_spoiled = true;  // it answers before it has read all: the rest stays unsent
        }
        co_return Status{};
    }
    is_spoiled = true;
    if (moved.error().code == Code::Closed) {
        // It may have answered before it closed.
        const Status ready = co_await socket.readable(wait);
        if (ready.ok()) {
            const auto answer = receive();
            if (answer.ok() && *answer != 0) {
                co_return Status{};
            }
        }
        was_closed = true;
    }
    co_return moved.error();
}

Status UpstreamStream::Connection::head_done() {
    if (parser.head().status == 101) {
        return failed(Error{Code::Protocol, "the engine switched protocols"});
    }
    has_head = true;
    framing = parser.framing(is_head_request);
    decoder = BodyDecoder(framing);
    at = parser.head_bytes();
    if (decoder.done()) {
        is_complete = true;
        is_spoiled = is_spoiled || at != in.size();  // more than it announced
    }
    return {};
}

net::Task<Result<ResponseHead>> UpstreamStream::Connection::read_head(net::Wait wait) {
    Parse parsed = in.size() != 0 ? parser.feed(in.view()) : Parse::NeedMore;
    for (;;) {
        if (parsed == Parse::Failed) {
            co_return failed(Error{Code::Protocol, parser.error_text()});
        }
        if (parsed == Parse::Done) {
            if (!parser.is_interim()) {
                break;
            }
            if (++interim > kMaxInterim) {
                co_return failed(Error{Code::Protocol, "too many interim responses"});
            }
            in.consume(parser.head_bytes());
            parser.reset();
            parsed = in.size() != 0 ? parser.feed(in.view()) : Parse::NeedMore;
            continue;
        }
        const Status ready = co_await socket.readable(wait);
        if (!ready.ok()) {
            // A reset may be met by the wait or by the read.
            was_closed = received == 0 && ready.error().code == Code::Closed;
            co_return failed(ready.error());
        }
        const auto got = receive();
        if (!got.ok() && got.error().code == Code::Unavailable) {
            continue;
        }
        if (!got.ok() || *got == 0) {
            was_closed = received == 0 && (got.ok() || got.error().code == Code::Closed);
            co_return failed(got.ok() ? Error{Code::Closed, "the engine ended before its response"}
                                      : got.error());
        }
        parsed = parser.feed(in.view());
    }
    const Status begun = head_done();
    if (!begun.ok()) {
        co_return begun.error();
    }
    co_return parser.head();
}

net::Task<Result<BodyPart>> UpstreamStream::Connection::read_body(net::Wait wait) {
    if (!has_head || is_complete) {
        co_return BodyPart{{}, is_complete};
    }
    for (;;) {
        if (at < in.size()) {
            std::size_t used = 0;
            char* const start = in.data() + at;
            const std::size_t size = decoder.compact({start, in.size() - at}, used);
            at += used;
            if (decoder.state() == BodyDecoder::State::Failed) {
                co_return failed(Error{Code::Protocol, decoder.error_text()});
            }
            if (decoder.done()) {
                is_complete = true;
                is_spoiled = is_spoiled || at != in.size();
            }
            if (size != 0 || is_complete) {
                co_return BodyPart{{start, size}, is_complete};
            }
        }
        at = 0;
        if (wanted > in.capacity() || !socket.is_readable()) {
            in.release();  // lent again when there are bytes
        } else {
            in.resize(0);
        }
        const Status ready = co_await socket.readable(wait);
        if (!ready.ok()) {
            co_return failed(ready.error());
        }
        const auto got = receive();
        if (!got.ok()) {
            if (got.error().code == Code::Unavailable) {
                continue;
            }
            co_return failed(got.error());
        }
        if (*got == 0) {
            if (decoder.end_of_input() == BodyDecoder::State::Done) {
                is_complete = true;
                co_return BodyPart{{}, true};
            }
            co_return failed(Error{Code::Closed, "the engine ended within its response"});
        }
    }
}

// -- UpstreamStream

UpstreamStream::UpstreamStream() noexcept = default;
UpstreamStream::UpstreamStream(std::unique_ptr<Connection> connection) noexcept
    : connection_(std::move(connection)) {}
UpstreamStream::UpstreamStream(UpstreamStream&& other) noexcept = default;
UpstreamStream& UpstreamStream::operator=(UpstreamStream&& other) noexcept {
    if (this != &other) {
        close();
        connection_ = std::move(other.connection_);
    }
    return *this;
}
UpstreamStream::~UpstreamStream() {
    close();
}

void UpstreamStream::close() noexcept {
    if (connection_ != nullptr) {
        UpstreamPool::Impl& pool = connection_->pool;
        pool.give_back(std::move(connection_));
    }
}

net::Task<Status> UpstreamStream::send(std::string_view head,
                                       std::span<const std::string_view> body, net::Wait wait) {
    Connection& c = *connection_;
    c.begin(head);
    c.parts.clear();
    c.parts.push_back(part(head));
    for (const std::string_view p : body) {
        if (!p.empty()) {
            c.parts.push_back(part(p));
        }
    }
    return c.send(wait);
}

net::Task<Status> UpstreamStream::send(std::string_view head, std::string_view body,
                                       net::Wait wait) {
    return send(head, std::span<const std::string_view>(&body, 1), wait);
}

net::Task<Result<ResponseHead>> UpstreamStream::read_head(net::Wait wait) {
    return connection_->read_head(wait);
}

net::Task<Result<BodyPart>> UpstreamStream::read_body(net::Wait wait) {
    return connection_->read_body(wait);
}

std::string_view UpstreamStream::connection_value() const noexcept {
    return connection_->parser.connection();
}
Framing UpstreamStream::framing() const noexcept {
    return connection_->framing;
}
bool UpstreamStream::has_body_at_hand() const noexcept {
    return connection_->is_complete ||
           (connection_->has_head && connection_->at < connection_->in.size());
}
void UpstreamStream::keep_alive_every(std::uint32_t seconds) noexcept {
    if (seconds != 0 && seconds != connection_->keepalive_sec) {
        connection_->keepalive_sec = seconds;
        net::keep_alive_every(connection_->socket, std::chrono::seconds(seconds));
    }
}
bool UpstreamStream::is_open() const noexcept {
    return connection_ != nullptr;
}
bool UpstreamStream::is_complete() const noexcept {
    return connection_ != nullptr && connection_->is_complete;
}
bool UpstreamStream::is_reused() const noexcept {
    return connection_ != nullptr && connection_->is_reused;
}
std::uint64_t UpstreamStream::bytes_received() const noexcept {
    return connection_ != nullptr ? connection_->received : 0;
}
std::uint64_t UpstreamStream::bytes_sent() const noexcept {
    return connection_ != nullptr ? connection_->sent : 0;
}
bool UpstreamStream::not_accepted() const noexcept {
    return connection_ != nullptr && connection_->is_reused && connection_->was_closed &&
           connection_->received == 0;
}
const net::Address& UpstreamStream::endpoint() const noexcept {
    return connection_->endpoint;
}

}  // namespace sluice::http
