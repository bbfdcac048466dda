// The second leg of a split request.
#include "core/flow/pd_exchange.hpp"
#include "core/flow/sdk_error.hpp"

namespace sluice::flow {

// Beside a prefill its time is waited for too.
std::uint64_t PdExchange::decode_patience_ms() const noexcept {
    const std::uint64_t own = spec_.decode_first_byte_ms;
    if (!is_concurrent() || own == 0) {
        return own;
    }
    return spec_.prefill_ms == 0 ? 0 : own + spec_.prefill_ms;
}

// A pair that met a broken connection meets no second one.
std::uint64_t PdExchange::most_idle_us(bool is_once) const noexcept {
    return !is_once ? UINT64_MAX : spent_.restarts > 0 ? 0 : kSureIdleUs;
}

// The leg enters the decode endpoint that was planned, or another where a fault or an edit has
// taken that out meanwhile. Where there is no other, one that only takes nothing new finishes what
// was begun for it.
bool PdExchange::enter_decode(Leg& leg) {
    const route::Decision planned = decode_;
    while (true) {
        const bool is_still_fit = is_fit(decode_.index);
        if (is_still_fit && leg.enter(decode_.index)) {
            return true;
        }
        if (!is_still_fit) {
            tried_[rules::kRoleDecode].push_back(decode_.index);
        }
        decode_ = choose(rules::kRoleDecode);
        if (!decode_.is_found) {
            decode_ = planned;
            return may_finish_at(planned.index) && leg.enter(planned.index);
        }
    }
}

net::Task<PdExchange::Step> PdExchange::decode() {
    while (true) {
        if (x_.client_.departure().fired()) {
            co_return interrupted();
        }
        if (is_prefill_bad_) {
            co_return fail_with_prefill();
        }
        if (!enter_decode(x_.leg_)) {
            co_return cure(spent_.legs > 0 ? PdFault::DecodeUnreached : PdFault::NoDecode);
        }
        LegEdits edits(body_);
        route::LegAsk ask = ask_of(SLUICE_LEG_DECODE);
        ask.handoff = object_for_decode();
        const sluice_status built = build(edits, ask);
        if (built == SLUICE_E_UNAVAILABLE) {
            co_return cure(PdFault::PrefillUnready);
        }
        if (built != SLUICE_OK) {
            x_.refuse({502, "pd_decode_failed", "the decode leg cannot be built", {}, "api_error"});
            co_return Step::Over;
        }
        decode_sent_us_ = x_.scene_.now_us();
        const Leg::Sending sending{
            .kind = route::LegKind::Decode,
            .decision = decode_,
            .attempt = attempt_,
            .pieces = edits.pieces(),
            .body_bytes = edits.size(),
            .headers = edits.headers(),
            .first_byte_ms = decode_patience_ms(),
            .is_once = has_object_ || is_concurrent(),
            .most_idle_us = most_idle_us(has_object_ || is_concurrent()),
            .send_by_us = has_object_ ? handoff_.good_until_us() : net::kNever,
            .carried = has_object_ ? &handoff_ : nullptr};
        const Leg::End end = co_await x_.leg_.run(sending);
        if (end == Leg::End::Stale) {
            co_return cure(PdFault::DecodeStale);
        }
        if (end == Leg::End::Outdated) {
            handoff_.take_back();
            // It is sent without the object, and rather to one that can be reached.
            if (has_other(rules::kRoleDecode, decode_.index)) {
                tried_[rules::kRoleDecode].push_back(decode_.index);
                const route::Decision other = choose(rules::kRoleDecode);
                decode_ = other.is_found ? other : decode_;
            }
            continue;
        }
        if (Leg::is_before_begin(end)) {
            // Nobody has seen the object.
            handoff_.take_back();
            const Step step = cure(PdFault::DecodeUnreached);
            if (step != Step::Again) {
                co_return step;
            }
            decode_ = choose(rules::kRoleDecode);
            if (!decode_.is_found) {
                co_return cure(PdFault::DecodeUnreached);
            }
            continue;
        }
        const Step judged = co_await judge_decode_head(end);
        if (judged != Step::Rebuilt) {
            co_return judged;
        }
        // What it could not read it has not used.
        handoff_.take_back();
        ++attempt_;
        x_.leg_.close();
        x_.first_part_ = {};
        x_.has_first_part_ = false;
    }
}

net::Task<PdExchange::Step> PdExchange::judge_decode_head(Leg::End end) {
    if (end == Leg::End::Head) {
        x_.status_ = x_.leg_.status();
        x_.first_byte_us_ = x_.leg_.record().first_byte_us;
        end = co_await x_.peek(x_.status_ >= 300, is_prefilling_);
        end = co_await hold_head(end);
    }
    if (is_prefill_bad_) {
        co_return fail_with_prefill();
    }
    switch (end) {
        case Leg::End::Head:
            break;
        case Leg::End::Interrupted:
            if (x_.leg_.record().connect_us == 0) {
                handoff_.take_back();
            } else if (may_release_) {
                // The engine that was to read them is told by the closed connection.
                handoff_.was_released();
            }
            co_return interrupted();
        case Leg::End::Overdue:
            x_.refuse_timeout();
            co_return Step::Over;
        case Leg::End::Late:
            co_return cure(PdFault::DecodeLate);
        default:
            x_.worker_.pd_metrics.counters.decode_zero_byte.add();
            x_.status_ = 0;
            co_return cure(PdFault::DecodeDied);
    }
    if (x_.status_ >= 300) {
        co_return judge_decode(x_.status_, x_.first_part_);
    }
    if (const std::string_view error = leading_error(x_.first_part_); !error.empty()) {
        co_return judge_decode(500, error);
    }
    if (x_.has_first_part_) {
        const Reading read = co_await reading();
        if (read == Reading::Halted) {
            handoff_.was_read();
            co_return interrupted();
        }
        if (read == Reading::TooLate) {
            x_.leg_.record().verdict = "read_late";
            co_return cure(PdFault::DecodeTooLate);
        }
    }
    x_.leg_.permit().answered();
    x_.leg_.endpoint().note_answered();
    x_.leg_.record().verdict = "relayed";
    x_.cached_tokens_ = heard_.cached_tokens;
    is_answering_ = true;
    learn_session();
    co_return Step::Answered;
}

// `body`: the beginning of an answer that is not 2xx, or the error a stream begins with.
PdExchange::Step PdExchange::judge_decode(int status, std::string_view body) {
    std::vector<sluice_pair> headers;
    for (const http::Header& h : x_.reply_.headers()) {
        headers.push_back({{h.name.data(), h.name.size()}, {h.value.data(), h.value.size()}});
    }
    sluice_reply reply{};
    reply.size = sizeof reply;
    reply.http_code = static_cast<std::uint32_t>(status);
    reply.flags = x_.leg_.upstream().is_complete() ? 0U : std::uint32_t{SLUICE_REPLY_CUT};
    reply.num_headers = static_cast<std::uint32_t>(headers.size());
    reply.headers = headers.data();
    reply.body = {reinterpret_cast<const std::uint8_t*>(body.data()), body.size()};
    route::LegAsk ask = ask_of(SLUICE_LEG_DECODE);
    ask.handoff = has_object_ ? handoff_.object() : std::string_view();
    auto err = empty_error();
    const std::uint32_t next = next_of(ask, reply, err);
    const std::uint64_t now = x_.scene_.now_us();
    const bool is_load = next == SLUICE_NEXT_BUSY || status == 429 ||
                         (status == 503 && !x_.reply_.header("Retry-After").empty());
    fleet::Permit& permit = x_.leg_.permit();
    if (status < 500 && status != 429) {
        permit.answered();
        x_.leg_.endpoint().note_answered();
    } else {
        is_load ? permit.release() : permit.origin_error(now);
    }
    x_.leg_.record().verdict = "relayed";
    Step step = Step::Answered;
    switch (next) {
        case SLUICE_NEXT_BUSY:
            step = cure(PdFault::DecodeBusy);
            break;
        case SLUICE_NEXT_ELSEWHERE:
            x_.leg_.endpoint().pass_over(
                status == 500 ? fleet::Mark::Draining : fleet::Mark::Refused, now);
            step = cure(PdFault::DecodeElsewhere);
            break;
        case SLUICE_NEXT_REBUILD:
            step = is_decode_rebuilt_ ? Step::Answered : Step::Rebuilt;
            is_decode_rebuilt_ = true;
            break;
        case SLUICE_NEXT_RESTART:
            step = cure(PdFault::DecodeRestart);
            break;
        case SLUICE_NEXT_FAIL:
            x_.leg_.record().verdict = "unusable";
            x_.refuse({502,
                       "pd_decode_failed",
                       words_of(err, "the decode endpoint's answer cannot be used"),
                       {},
                       "api_error"});
            return Step::Over;
        default:
            break;
    }
    if (step == Step::Answered) {
        reading_ = Reading::InTime;  // an error says nothing of the blocks
        is_refused_ = may_release_ && status >= 400 && status < 500 && status != 429;
        const bool is_whole = x_.status_ < 300 || x_.leg_.upstream().is_complete();
        if (!is_whole || tells_of_engines(body)) {
            x_.leg_.record().verdict = "refused";
            return hide_error(status);
        }
    }
    if (step == Step::Again || step == Step::Rebuilt) {
        x_.leg_.record().verdict = next == SLUICE_NEXT_BUSY      ? "busy"
                                   : next == SLUICE_NEXT_REBUILD ? "rebuilt"
                                                                 : "restart";
        x_.leg_.record().done_us = x_.scene_.since_start_us();
    }
    return step;
}

std::uint32_t PdExchange::next_of(const route::LegAsk& ask, const sluice_reply& reply,
                                  sluice_error& err) const {
    const auto discard = [](void*, const void*, std::size_t) -> sluice_status {
        return SLUICE_OK;
    };
    sluice_reply_out out{};
    out.size = sizeof out;
    out.handoff = {nullptr, discard};
    out.body = {nullptr, discard};
    out.set_header = [](void*, sluice_str, sluice_str) -> sluice_status {
        return SLUICE_OK;
    };
    out.prompt_ids = [](void*, const std::uint32_t*, std::size_t) {
    };
    const bool is_heard = x_.service_->engine->on_reply(ask, reply, out, &err) == SLUICE_OK;
    return is_heard ? out.next : std::uint32_t{SLUICE_NEXT_RELAY};
}

void PdExchange::decode_began() {
    if (x_.status_ >= 300) {
        return;  // what it refused it has not read
    }
    is_read_ = true;
    handoff_.was_read();
    if (is_split_ && decode_sent_us_ != 0) {
        metrics_.decode_ttft->observe(static_cast<double>(x_.scene_.now_us() - decode_sent_us_) *
                                      1e-6);
    }
}

void PdExchange::decode_broke(bool has_bytes) {
    PdCounters& counters = x_.worker_.pd_metrics.counters;
    (has_bytes ? counters.decode_died : counters.decode_zero_byte).add();
}

}  // namespace sluice::flow
