#include "core/plugin/http_call.hpp"

#include "core/base/clock.hpp"
#include "core/net/loop.hpp"
#include "core/plugin/event_thread.hpp"

namespace sluice::plugin {
namespace {

// A connection this fresh is not one that an engine's server is just closing for idleness, so that
// reuse needs no second try.
constexpr std::chrono::milliseconds kReuseWithin{1000};

}  // namespace

sluice_status to_status(const Error& error) noexcept {
    switch (error.code) {
        case Code::Timeout:
            return SLUICE_E_TIMEOUT;
        case Code::Cancelled:
            return SLUICE_E_CANCELLED;
        case Code::Protocol:
            return SLUICE_E_PROTOCOL;
        case Code::Limit:
            return SLUICE_E_LIMIT;
        case Code::Unsupported:
            return SLUICE_E_UNSUPPORTED;
        case Code::NotFound:
            return SLUICE_E_NOT_FOUND;
        case Code::Invalid:
            return SLUICE_E_INVALID;
        default:
            return SLUICE_E_UNAVAILABLE;
    }
}

HttpCall::HttpCall(HttpSpec spec, Done done)
    : spec_(std::move(spec)), done_(std::move(done)), begin_us_(now_us()) {}

void HttpCall::cancel() noexcept {
    is_cancelled_ = true;
    cancel_.fire();
}

HttpCaller::~HttpCaller() = default;

void HttpCaller::open() {
    http::UpstreamOptions options;
    options.idle = kReuseWithin;
    pool_ = std::make_unique<http::UpstreamPool>(events_.loop(), options);
    tasks_ = std::make_unique<net::TaskGroup>();
}

void HttpCaller::close() {
    tasks_.reset();
    pool_.reset();
}

void HttpCaller::start(std::shared_ptr<HttpCall> call) {
    // A later turn of the loop, so that even a call that ends at once ends outside start().
    (void)events_.post([this, call = std::move(call)] {
        if (tasks_ && !call->is_cancelled_) {
            tasks_->spawn(run(call));
        }
    });  // refused only while everything stops
}

net::Task<void> HttpCaller::run(std::shared_ptr<HttpCall> call) {
    HttpOutcome out;
    const Status done = co_await exchange(*call, out);
    if (!done) {
        out.status = to_status(done.error());
    }
    out.elapsed_us = now_us() - call->begin_us_;
    if (!call->is_cancelled_) {
        call->done_(out);
    }
}

net::Task<Status> HttpCaller::exchange(HttpCall& call, HttpOutcome& out) {
    const HttpSpec& spec = call.spec_;
    const net::Wait wait{spec.deadline_us, &call.cancel_};
    auto leased = co_await pool_->acquire(spec.to, wait);
    if (!leased) {
        co_return std::move(leased).error();
    }
    http::UpstreamStream stream = std::move(leased).value();
    Status sent = co_await stream.send(spec.head, std::string_view(spec.body), wait);
    if (!sent) {
        co_return std::move(sent).error();
    }
    auto head = co_await stream.read_head(wait);
    if (!head) {
        co_return std::move(head).error();
    }
    out.code = static_cast<std::uint32_t>(head->status);
    for (const http::Header& h : head->headers) {
        out.headers.emplace_back(h.name, h.value);
    }
    for (;;) {
        auto part = co_await stream.read_body(wait);
        if (!part) {
            co_return std::move(part).error();
        }
        const std::size_t room = spec.max_body_bytes - out.body.size();
        out.body.append(part->bytes.substr(0, room));
        if (part->bytes.size() > room) {
            co_return Error{Code::Limit, "the body is longer than asked for"};
        }
        if (part->last) {
            co_return Status();
        }
    }
}

}  // namespace sluice::plugin
