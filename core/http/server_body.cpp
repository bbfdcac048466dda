// The request bodies of Http1Connection.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/http/server_connection.hpp"

namespace sluice::http {
namespace {

// A body's memory grows with what arrived, not with what was announced, beyond this.
constexpr std::size_t kTrustedBytes = std::size_t{1} << 20U;

constexpr std::array<char, net::kSlackBytes> kEmptyBody{};

}  // namespace

Error Http1Connection::body_failed(Error error) noexcept {
    body_state_ = Body::Failed;
    return error;
}

bool Http1Connection::is_body_consumed() const noexcept {
    if (body_state_ != Body::Unread) {
        return body_state_ == Body::Read;
    }
    // Not asked for, but here as a whole.
    const Framing framing = parser_.framing();
    return framing.kind == BodyKind::Length &&
           framing.length <= in_.size() - std::min(in_.size(), message_bytes_);
}

void Http1Connection::keep_for_next(std::string_view bytes) {
    if (!bytes.empty()) {
        next_ = server_.loop.buffers().take(std::max(bytes.size(), net::kSmallBufferBytes));
        std::memcpy(next_.data(), bytes.data(), bytes.size());
        next_.resize(bytes.size());
    }
}

net::Task<Status> Http1Connection::send_continue() {
    static constexpr std::string_view line = "HTTP/1.1 100 Continue\r\n\r\n";
    parts_.clear();
    parts_.push_back({const_cast<char*>(line.data()), line.size()});
    Status sent;
    if (!write_now(sent)) {
        sent = co_await write_rest();
    }
    co_return sent;
}

net::Task<Result<std::string_view>> Http1Connection::read_body(std::size_t max_bytes,
                                                               std::chrono::milliseconds gap,
                                                               net::Cancel* stop) {
    const Framing framing = parser_.framing();
    if (framing.kind == BodyKind::None) {
        co_return std::string_view(kEmptyBody.data(), 0);
    }
    if (body_state_ != Body::Unread) {
        co_return Error{Code::Internal, "the body was read before"};
    }
    if (framing.kind == BodyKind::Length && framing.length > max_bytes) {
        co_return body_failed(Error{Code::Limit, "request body too large"});
    }
    const std::size_t have = in_.size() - message_bytes_;
    if (framing.kind == BodyKind::Length && framing.length <= have) {
        const std::string_view body(in_.data() + message_bytes_,
                                    static_cast<std::size_t>(framing.length));
        body_state_ = Body::Read;
        message_bytes_ += body.size();
        bytes_received_ = message_bytes_;
        co_return body;
    }
    if (parser_.expects_continue() && in_.size() == message_bytes_ && !head_taken_) {
        const Status asked = co_await send_continue();
        if (!asked.ok()) {
            co_return body_failed(asked.error());
        }
    }
    if (gap.count() == 0) {
        gap = server_.limits.body;
    }
    if (framing.kind == BodyKind::Length) {
        co_return co_await read_length_body(framing.length, gap, stop);
    }
    co_return co_await read_chunked_body(max_bytes, gap, stop);
}

net::Task<Result<std::string_view>> Http1Connection::read_length_body(std::uint64_t length,
                                                                      std::chrono::milliseconds gap,
                                                                      net::Cancel* stop) {
    const std::size_t head_bytes = message_bytes_;
    const auto size = static_cast<std::size_t>(length);
    const std::size_t have = in_.size() - head_bytes;
    const bool in_place = size <= in_.capacity() - head_bytes;
    net::Buffer& into = in_place ? in_ : body_;
    const std::size_t start = in_place ? head_bytes : 0;
    if (!in_place) {
        body_ = server_.loop.buffers().take(std::min(size, std::max(kTrustedBytes, have)));
        std::memcpy(body_.data(), in_.data() + head_bytes, have);
        body_.resize(have);
        in_.resize(head_bytes);
    }
    while (into.size() - start < size) {
        if (into.room() == 0) {
            into.grow(std::min(start + size, into.capacity() * 2));
        }
        // Asking for more than the rest shows in the same call that nothing follows it; the slack
        // has room for that.
        const std::size_t missing = size - (into.size() - start);
        const bool ends_here = !in_place && into.room() >= missing;
        const std::size_t ask = ends_here ? missing + net::kSlackBytes : into.room();
        const auto got =
            co_await socket_.recv({into.data() + into.size(), ask},
                                  {.deadline_us = server_.loop.after(gap), .cancel = stop});
        if (!got.ok()) {
            co_return body_failed(got.error());
        }
        if (*got == 0) {
            co_return body_failed(Error{Code::Closed, "the client ended within its body"});
        }
        if (ends_here && *got > missing) {
            keep_for_next({into.data() + into.size() + missing, *got - missing});
        }
        into.resize(into.size() + (ends_here ? std::min(*got, missing) : *got));
    }
    body_state_ = Body::Read;
    bytes_received_ = head_bytes + length;
    if (in_place) {
        message_bytes_ = head_bytes + size;
    }
    co_return std::string_view(into.data() + start, size);
}

net::Task<Result<std::string_view>> Http1Connection::read_chunked_body(
    std::size_t max_bytes, std::chrono::milliseconds gap, net::Cancel* stop) {
    // Payload is moved together right behind the head, later in body_; `end` is where it ends.
    BodyDecoder decoder(Framing::chunked());
    const std::size_t head_bytes = message_bytes_;
    net::Buffer* into = &in_;
    std::size_t start = head_bytes;
    std::size_t end = head_bytes;
    std::size_t filled = in_.size();
    std::size_t used = 0;
    for (;;) {
        bytes_received_ += filled - end;
        const std::size_t kept = decoder.compact({into->data() + end, filled - end}, used);
        const std::size_t rest = end + used;
        end += kept;
        if (end - start > max_bytes) {
            co_return body_failed(Error{Code::Limit, "request body too large"});
        }
        if (decoder.state() == BodyDecoder::State::Failed) {
            co_return body_failed(Error{Code::Protocol, decoder.error_text()});
        }
        if (decoder.done()) {
            bytes_received_ -= filled - rest;
            keep_for_next({into->data() + rest, filled - rest});
            break;
        }
        if (into->capacity() - end < net::kSmallBufferBytes / 4) {
            const std::size_t payload = end - start;
            if (into == &in_) {
                body_ = server_.loop.buffers().take(
                    std::max(net::kBufferBytes, 2 * (payload + net::kSmallBufferBytes)));
                std::memcpy(body_.data(), in_.data() + start, payload);
                into = &body_;
                start = 0;
                end = payload;
            } else {
                into->resize(end);
                into->grow(into->capacity() * 2);
            }
        }
        const auto got =
            co_await socket_.recv({into->data() + end, into->capacity() - end},
                                  {.deadline_us = server_.loop.after(gap), .cancel = stop});
        if (!got.ok()) {
            co_return body_failed(got.error());
        }
        if (*got == 0) {
            co_return body_failed(Error{Code::Closed, "the client ended within its body"});
        }
        filled = end + *got;
    }
    into->resize(end);
    if (into != &in_) {
        in_.resize(head_bytes);
    }
    message_bytes_ = in_.size();
    body_state_ = Body::Read;
    co_return std::string_view(into->data() + start, end - start);
}

}  // namespace sluice::http
