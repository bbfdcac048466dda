// The last part of an exchange: relaying the answer, and what is said when it breaks off.
#include "core/base/log.hpp"
#include "core/flow/id_patch.hpp"
#include "core/flow/member_mask.hpp"
#include "core/flow/pd_exchange.hpp"
#include "core/flow/reply.hpp"
#include "core/flow/usage_patch.hpp"

namespace sluice::flow {

net::Task<void> Exchange::relay() {
    const std::uint64_t chunk_gap_ms = service_->rule->timeouts.chunk_gap_ms;
    client_.set_send_deadline(scene_.deadline_us);
    const Observer::Kind kind = Observer::kind_of(reply_.header("Content-Type"));
    observer_.begin(kind);
    if (kind == Observer::Kind::Events) {
        is_stream_counted_ = true;
        receipt_.is_stream = true;
        worker_.metrics.stream_began(receipt_.model);
    }
    const bool is_prefilling = pd_ && pd_->is_prefilling();
    if (!pd_ || !pd_->needs_body()) {
        client_.release_body();
    }
    // What prefill had cached stands in the place of what decode was given.
    std::optional<UsagePatch> patch;
    // What a decode engine repeats of the hand-off is nobody else's.
    std::optional<MemberMask> mask;
    http::Framing framing = reply_.client_framing(client_.head().method == "HEAD");
    const bool is_split = pd_ && pd_->is_split();
    if ((cached_tokens_ || is_prefilling) && kind != Observer::Kind::Other) {
        patch.emplace(cached_tokens_);
        framing = http::Framing::chunked();
    }
    if (is_split && kind != Observer::Kind::Other && !service_->traits.reserved_fields.empty()) {
        mask.emplace(service_->traits.reserved_fields);
        framing = http::Framing::chunked();
    }
    // The id the engines know it by names where they are.
    std::optional<IdPatch> id_patch;
    if (is_split && kind != Observer::Kind::Other && !engine_id_.empty()) {
        id_patch.emplace(engine_id_, receipt_.id);
        framing = http::Framing::chunked();
    }
    client_.send_head(status_, reply_.for_client(receipt_.id, !is_split), framing, reply_.reason());
    if (!has_first_part_) {
        const Status flushed = co_await client_.flush();
        if (!flushed) {
            client_left();
            co_return;
        }
    }
    std::string_view bytes = first_part_;
    bool has_bytes = has_first_part_;
    while (true) {
        const bool is_complete = leg_.upstream().is_complete();
        if (has_bytes && is_split && !has_begun_) {
            const PdExchange::Reading read = co_await pd_->reading();
            if (read == PdExchange::Reading::Halted) {
                const Error halted = net::error_for(net::Op::kCancelled, "answer");
                co_await fail_relay(halted);
                co_return;
            }
            if (read == PdExchange::Reading::TooLate) {
                co_await end_read_late();
                co_return;
            }
        }
        if (has_bytes) {
            if (mask) {
                bytes = mask->apply(bytes, is_complete);
            }
            if (patch) {
                bytes = patch->apply(bytes, is_complete);
            }
            if (id_patch) {
                bytes = id_patch->apply(bytes, is_complete);
            }
            if (is_split && !has_begun_) {
                has_begun_ = true;
                pd_->decode_began();
            }
            observer_.see(bytes);
            if (is_complete && !observer_.error().empty()) {
                note_error_event();  // before the client can know, and ask again
            }
            if (is_complete && kind == Observer::Kind::Events && status_ < 300 &&
                !observer_.has_events()) {
                receipt_.outcome = route::Outcome::Truncated;
                leg_.permit().failed("its stream held no event", worker_.loop.now_us());
                co_await end_stream_with_error("empty_stream",
                                               "the endpoint's stream held no event");
                co_return;
            }
            const Status sent = co_await client_.send_body(bytes, is_complete);
            if (!sent) {
                client_left();
                if (is_overdue()) {
                    receipt_.outcome = route::Outcome::Timeout;
                    receipt_.error_code = is_capped() ? "max_stream_duration" : "total_timeout";
                }
                co_return;
            }
        }
        if (is_complete) {
            break;
        }
        if (is_overdue()) {
            // An endpoint that never pauses is never waited for.
            const Error late = net::error_for(net::Op::kTimedOut, "answer");
            co_await fail_relay(late);
            co_return;
        }
        auto part = co_await leg_.upstream().read_body(leg_.next_wait(chunk_gap_ms));
        while (!part && leg_.is_pause(part.error())) {
            part = co_await leg_.upstream().read_body(leg_.same_wait());
        }
        if (!part) {
            co_await fail_relay(part.error());
            co_return;
        }
        bytes = part->bytes;
        has_bytes = true;
    }
    leg_.permit().completed();
}

// The head went out, and what comes behind it may be of another prompt.
net::Task<void> Exchange::end_read_late() {
    leg_.record().verdict = "read_late";
    receipt_.outcome = route::Outcome::UpstreamError;
    receipt_.error_code = "pd_decode_failed";
    if (observer_.kind() == Observer::Kind::Events) {
        co_await end_stream_with_error("pd_decode_failed", kReadLate);
        co_return;
    }
    client_.abort();
}

// An answer that is here as a whole.
net::Task<void> Exchange::answer_ready() {
    status_ = ready_->status;
    std::vector<http::Header> fields;
    bool has_id = false;
    for (const auto& [name, value] : ready_->headers) {
        has_id = has_id || http::equals_ignore_case(name, "x-request-id");
        fields.push_back({name, value});
    }
    if (!has_id) {
        fields.push_back({"X-Request-Id", receipt_.id});
    }
    if (!engine_id_.empty()) {
        ready_->body = IdPatch(engine_id_, receipt_.id).apply(ready_->body, true);
    }
    observer_.begin(Observer::kind_of(http::header_value(fields, "Content-Type")));
    observer_.see(ready_->body);
    client_.set_send_deadline(scene_.deadline_us);
    client_.release_body();
    client_.send_head(status_, fields, http::Framing::of_length(ready_->body.size()));
    const Status sent = co_await client_.send_body(ready_->body, true);
    if (!sent) {
        client_left();
    }
}

// The answer cannot be completed: whoever follows a stream is told in it, others see it break.
net::Task<void> Exchange::fail_relay(const Error& error) {
    const bool is_stopped = error.code == Code::Cancelled;
    if (is_stopped && client_.departure().fired()) {
        client_left();
        co_return;
    }
    const bool is_timeout = error.code == Code::Timeout && !leg_.is_gone();
    const bool is_late = is_timeout && is_overdue();
    const bool is_split = pd_ && pd_->is_split();
    if (is_split && !is_timeout && !is_stopped) {
        pd_->decode_broke(has_begun_);
    }
    struct Said {
        const char* verdict;
        const char* code;     // of a stream's last event
        const char* message;  // of the same
        const char* plain;    // code in the receipt of an answer that is no stream
    };
    const Said said =
        is_stopped ? Said{"cut_off", "shutting_down", "the gateway stops and waits no longer",
                          "shutting_down"}
        : is_late && is_capped()
            ? Said{"cut_off", "max_stream_duration", "the rule's limit for one response has passed",
                   "max_stream_duration"}
        : is_late ? Said{"cut_off", "total_timeout", "the rule's limit for one request has passed",
                         "response_stalled"}
        : is_timeout ? Said{"stalled", is_split ? "pd_decode_stream_timeout" : "stream_stalled",
                            "the endpoint fell silent", "response_stalled"}
        : leg_.is_gone()
            ? Said{"gone", "endpoint_gone",
                   "the endpoint is silent and its port refuses connections", "endpoint_gone"}
            : Said{"died", "stream_truncated", "the endpoint ended within its answer",
                   "response_truncated"};
    leg_.record().verdict = said.verdict;
    if (!is_stopped && !is_late) {
        leg_.permit().failed(said.message, worker_.loop.now_us());
    }
    log::warn("response broke off", {{"endpoint", leg_.record().endpoint},
                                     {"request_id", receipt_.id},
                                     {"reason", error.what}});
    receipt_.outcome = is_timeout ? route::Outcome::Timeout : route::Outcome::Truncated;
    if (observer_.kind() == Observer::Kind::Events) {
        co_await end_stream_with_error(said.code, said.message);
        co_return;
    }
    receipt_.error_code = said.plain;
    client_.abort();
}

net::Task<void> Exchange::end_stream_with_error(std::string_view code, std::string_view message) {
    receipt_.error_code = code;
    client_.close_after();
    client_.set_send_deadline(net::kNever);
    // The engine is to stop now, not when the client has taken the last of it.
    leg_.upstream().close();
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
