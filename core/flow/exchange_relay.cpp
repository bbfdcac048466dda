// The last part of an exchange: relaying the answer, and what is said when it breaks off.
#include "core/base/log.hpp"
#include "core/flow/exchange.hpp"
#include "core/flow/reply.hpp"

namespace sluice::flow {
namespace {

// A stream's head is held back this long for its first event: an engine that dies at once is then
// still an honest 502.
constexpr std::uint64_t kHeadHoldMs = 250;

}  // namespace

void Exchange::send_reply_head() {
    client_.send_head(status_, reply_.for_client(receipt_.id),
                      reply_.client_framing(client_.head().method == "HEAD"), reply_.reason());
}

net::Task<void> Exchange::relay() {
    const std::uint64_t chunk_gap_ms = service_->rule->timeouts.chunk_gap_ms;
    client_.set_send_deadline(deadline_us_);
    const Observer::Kind kind = Observer::kind_of(reply_.header("Content-Type"));
    observer_.begin(kind);
    if (kind == Observer::Kind::Events) {
        is_stream_counted_ = true;
        receipt_.is_stream = true;
        worker_.metrics.stream_began(receipt_.model);
    }
    client_.release_body();
    if (has_first_part_) {
        send_reply_head();
        observer_.see(scratch_->first_part);
        const Status sent = co_await client_.send_body(scratch_->first_part);
        if (!sent) {
            client_left();
            co_return;
        }
    }
    bool is_complete = upstream_.is_complete();
    while (!is_complete) {
        const bool is_held = !client_.head_taken();
        const bool holds_less = chunk_gap_ms == 0 || chunk_gap_ms > kHeadHoldMs;
        const std::uint64_t gap_ms = is_held && holds_less ? kHeadHoldMs : chunk_gap_ms;
        if (is_overdue()) {
            // An endpoint that never pauses is never waited for.
            const Error late = net::error_for(net::Op::kTimedOut, "answer");
            co_await fail_relay(late);
            co_return;
        }
        auto part = co_await upstream_.read_body(wait_ms(gap_ms));
        if (!part && part.error().code == Code::Timeout && is_held && !is_overdue()) {
            send_reply_head();
            const Status flushed = co_await client_.flush();
            if (!flushed) {
                client_left();
                co_return;
            }
            continue;
        }
        if (!part) {
            co_await fail_relay(part.error());
            co_return;
        }
        is_complete = part->last;
        observer_.see(part->bytes);
        if (is_held) {
            send_reply_head();
        }
        if (is_complete && kind == Observer::Kind::Events && status_ < 300 &&
            !observer_.has_events()) {
            receipt_.outcome = route::Outcome::Truncated;
            co_await end_stream_with_error("empty_stream", "the endpoint's stream held no event");
            co_return;
        }
        const Status sent = co_await client_.send_body(part->bytes, is_complete);
        if (!sent) {
            client_left();
            if (is_overdue()) {
                receipt_.outcome = route::Outcome::Timeout;
                receipt_.error_code = is_capped() ? "max_stream_duration" : "total_timeout";
            }
            co_return;
        }
    }
    if (!client_.head_taken()) {
        send_reply_head();
    }
    const Status finished = co_await client_.finish();
    if (!finished) {
        client_left();
    }
}

// The answer cannot be completed. What the client has seen decides how it is told.
net::Task<void> Exchange::fail_relay(const Error& error) {
    if (error.code == Code::Cancelled) {
        client_left();
        co_return;
    }
    const bool is_timeout = error.code == Code::Timeout;
    const bool is_late = is_timeout && is_overdue();
    leg().verdict = is_late ? "cut_off" : is_timeout ? "stalled" : "died";
    log::warn("response broke off",
              {{"endpoint", leg().endpoint}, {"request_id", receipt_.id}, {"reason", error.what}});
    if (!client_.head_taken()) {
        if (is_timeout) {
            refuse_timeout();
        } else {
            refuse({502,
                    "upstream_failed",
                    "the endpoint ended before its answer began",
                    {},
                    "api_error"});
        }
        co_return;
    }
    receipt_.outcome = is_timeout ? route::Outcome::Timeout : route::Outcome::Truncated;
    if (observer_.kind() == Observer::Kind::Events) {
        const bool is_cap = is_late && is_capped();
        const char* const code = is_cap       ? "max_stream_duration"
                                 : is_late    ? "total_timeout"
                                 : is_timeout ? "stream_stalled"
                                              : "stream_truncated";
        const char* const message = is_cap       ? "the rule's limit for one response has passed"
                                    : is_late    ? "the rule's limit for one request has passed"
                                    : is_timeout ? "the endpoint fell silent"
                                                 : "the endpoint ended within its answer";
        co_await end_stream_with_error(code, message);
        co_return;
    }
    receipt_.error_code = is_late && is_capped() ? "max_stream_duration"
                          : is_timeout           ? "response_stalled"
                                                 : "response_truncated";
    client_.abort();
}

net::Task<void> Exchange::end_stream_with_error(std::string_view code, std::string_view message) {
    receipt_.error_code = code;
    client_.close_after();
    client_.set_send_deadline(net::kNever);
    // The engine is to stop now, not when the client has taken the last of it.
    upstream_.close();
    const std::string event =
        std::string(observer_.event_gap()) + error_event(code, message, receipt_.id);
    const Status sent = co_await client_.send_body(event, true);
    if (!sent) {
        client_left();
        co_return;
    }
    const Status finished = co_await client_.finish();
    if (!finished) {
        client_left();
    }
}

}  // namespace sluice::flow
