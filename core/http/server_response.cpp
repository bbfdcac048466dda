// The response side of Http1Connection.
#include <algorithm>

#include "core/http/head_writer.hpp"
#include "core/http/server_connection.hpp"

namespace sluice::http {
namespace {

constexpr std::string_view kCrlf = "\r\n";
constexpr std::string_view kLastChunk = "0\r\n\r\n";
constexpr std::string_view kCrlfLastChunk = "\r\n0\r\n\r\n";

iovec part(std::string_view bytes) noexcept {
    return {const_cast<char*>(bytes.data()), bytes.size()};
}

}  // namespace

void Http1Connection::send_head(int status, HeaderSpan headers, Framing framing,
                                std::string_view reason) {
    if (head_taken_) {
        return;
    }
    head_taken_ = true;
    const bool has_no_body = status == 204 || status == 304 || status < 200;
    drops_body_ = has_no_body || head().method == "HEAD";
    if (framing.kind == BodyKind::Chunked && head().version_minor == 0) {
        framing = Framing::until_close();
    }
    if (framing.kind == BodyKind::None && !drops_body_) {
        framing = Framing::of_length(0);
    }
    if (status == 204 || status < 200) {
        framing = Framing::none();  // these must not even name a length
    }
    closing_ = closing_ || server_.is_draining || !is_body_consumed() ||
               (framing.kind == BodyKind::UntilClose && !drops_body_);
    framing_ = framing.kind;
    length_left_ = framing.length;
    head_out_.clear();
    write_response_head(head_out_, status, reason, headers, framing, closing_);
}

// Collects what goes before the payload; false if the payload does not fit the framing.
bool Http1Connection::begin_write(std::size_t payload_bytes, bool last) {
    parts_.clear();
    if (!head_out_.empty()) {
        parts_.push_back(part(head_out_));
    }
    if (drops_body_) {
        return true;
    }
    if (framing_ == BodyKind::Length) {
        if (payload_bytes > length_left_ || (last && payload_bytes != length_left_)) {
            return false;
        }
        length_left_ -= payload_bytes;
    } else if (framing_ == BodyKind::Chunked && payload_bytes != 0) {
        parts_.push_back(part(chunk_line(chunk_line_, payload_bytes)));
    }
    return true;
}

// Adds what goes behind it.
void Http1Connection::end_write(bool last) {
    if (framing_ != BodyKind::Chunked || drops_body_) {
        return;
    }
    // The payload is the last part if there is one; without it no chunk is open.
    const bool has_chunk = parts_.size() > (head_out_.empty() ? 0U : 1U);
    if (last) {
        parts_.push_back(part(has_chunk ? kCrlfLastChunk : kLastChunk));
    } else if (has_chunk) {
        parts_.push_back(part(kCrlf));
    }
}

net::Task<Status> Http1Connection::send_body(std::span<const std::string_view> parts, bool last) {
    if (!head_taken_ || finished_ || aborted_) {
        co_return Error{Code::Internal, "no response is open"};
    }
    std::size_t bytes = 0;
    for (const std::string_view p : parts) {
        bytes += p.size();
    }
    if (!begin_write(bytes, last)) {
        abort();
        co_return Error{Code::Internal, "the body does not have the announced length"};
    }
    if (!drops_body_) {
        for (const std::string_view p : parts) {
            if (!p.empty()) {
                parts_.push_back(part(p));
            }
        }
    }
    end_write(last);
    Status sent;
    if (!write_now(sent)) {
        sent = co_await write_rest();
    }
    finished_ = finished_ || (last && sent.ok());
    co_return sent;
}

net::Task<Status> Http1Connection::send_body(std::string_view only, bool last) {
    if (!head_taken_ || finished_ || aborted_) {
        co_return Error{Code::Internal, "no response is open"};
    }
    if (!begin_write(only.size(), last)) {
        abort();
        co_return Error{Code::Internal, "the body does not have the announced length"};
    }
    if (!drops_body_ && !only.empty()) {
        parts_.push_back(part(only));
    }
    end_write(last);
    Status sent;
    if (!write_now(sent)) {
        sent = co_await write_rest();
    }
    finished_ = finished_ || (last && sent.ok());
    co_return sent;
}

net::Task<Status> Http1Connection::flush() {
    if (head_out_.empty()) {
        co_return Status{};
    }
    parts_.clear();
    parts_.push_back(part(head_out_));
    Status sent;
    if (!write_now(sent)) {
        sent = co_await write_rest();
    }
    co_return sent;
}

net::Task<Status> Http1Connection::finish() {
    if (finished_) {
        co_return Status{};
    }
    co_return co_await send_body(std::string_view{}, true);
}

void Http1Connection::abort() noexcept {
    aborted_ = true;
    closing_ = true;
    head_out_.clear();
}

// Sends what fits of parts_, also to a client that closed its sending side; false if some is left.
bool Http1Connection::write_now(Status& outcome) {
    write_left_ = 0;
    for (const iovec& p : parts_) {
        write_left_ += p.iov_len;
    }
    if (write_left_ == 0) {
        return true;
    }
    const auto sent = socket_.send_now(parts_);
    if (sent.ok()) {
        bytes_sent_ += *sent;
        write_left_ -= *sent;
        if (write_left_ == 0) {
            head_out_.clear();
            return true;
        }
        return false;
    }
    if (sent.error().code == Code::Unavailable) {
        return false;
    }
    abort();
    outcome = sent.error();
    return true;
}

// Sends the rest, unless the client leaves or takes nothing for too long.
net::Task<Status> Http1Connection::write_rest() {
    for (;;) {
        const auto deadline_us =
            std::min(server_.loop.after(server_.limits.send_stall), send_deadline_us_);
        const auto sent =
            co_await socket_.send(parts_, {.deadline_us = deadline_us, .cancel = &departure_});
        std::size_t rest = 0;
        for (const iovec& p : parts_) {
            rest += p.iov_len;
        }
        const bool has_moved = rest < write_left_;
        bytes_sent_ += write_left_ - rest;
        write_left_ = rest;
        if (rest == 0) {
            head_out_.clear();
            co_return Status{};
        }
        // A deadline for the whole would cut a slow but steady reader: one that took bytes gets
        // more.
        const bool goes_on = !sent.ok() && sent.error().code == Code::Timeout && has_moved &&
                             server_.loop.now_us() < send_deadline_us_;
        if (!goes_on) {
            abort();
            co_return sent.ok() ? Error{Code::Internal, "send ended early"} : sent.error();
        }
    }
}

}  // namespace sluice::http
