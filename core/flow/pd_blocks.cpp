// What becomes of the blocks that a prefill engine holds for a decode engine: handed on in time,
// given back, or read too late.
#include <algorithm>

#include "core/base/log.hpp"
#include "core/flow/pd_exchange.hpp"

namespace sluice::flow {

// The object for this decode leg: empty where decode computes the prompt itself.
std::string_view PdExchange::object_for_decode() {
    if (!has_object_) {
        return {};
    }
    if (const auto given = handoff_.give(x_.scene_.now_us())) {
        return *given;
    }
    // Too old, or of a process that is not there any more.
    has_object_ = may_release_ = false;
    handoff_.abandon();
    x_.worker_.pd_metrics.counters.recomputed.add();
    return {};
}

// An engine that has let blocks go hands out whatever lies there now, without a fault. So an answer
// that begins when most of their time is over is kept back until the engine that held them has
// spoken twice. It counts what it let go unread, and reads that came too late, of which it hears
// when it works next.
net::Task<PdExchange::Reading> PdExchange::reading() {
    const std::uint64_t begun_us = x_.scene_.now_us();
    const std::uint64_t over_us = prefill_leg_.sent_us() + handoff_.lease_us() / 4 * 3;
    if (reading_ || !has_object_ || !counts_before_ || handoff_.lease_us() == 0 ||
        begun_us < over_us) {
        co_return reading_.value_or(Reading::InTime);
    }
    const fleet::Endpoint& prefill = *(*x_.service_->pool)[prefill_.index].endpoint;
    const std::uint64_t until_us = std::min(begun_us + kWordUs, x_.scene_.deadline_us);
    fleet::Load word = prefill.load();
    fleet::Load first;
    // Of one that another process follows, or that was taken out, no word will come.
    while (!reading_ && handoff_.is_held() && x_.scene_.is_still_in(prefill_.index)) {
        (void)co_await x_.worker_.loop.sleep_until(
            x_.worker_.loop.after(std::chrono::milliseconds(50)), &x_.answer_halt_);
        if (x_.answer_halt_.fired()) {
            co_return Reading::Halted;
        }
        const fleet::Load next = prefill.load();
        if (next.at_us != word.at_us) {
            word = next;
            if (word.holds_read_late != counts_before_->holds_read_late) {
                reading_ = Reading::TooLate;
            } else if (first.at_us == 0) {
                first = word;  // it may have been on its way before this moment
            } else if (word.holds_expired == counts_before_->holds_expired ||
                       word.progress > first.progress) {
                reading_ = Reading::InTime;
            }
        }
        if (!reading_ && x_.scene_.now_us() >= until_us) {
            reading_ = Reading::TooLate;  // as far as is known
        }
    }
    if (reading_ == Reading::TooLate) {
        x_.worker_.pd_metrics.counters.late_reads.add();
        log::error(
            "a decode endpoint may have read blocks too late: its answer is dropped, and its "
            "prefix cache may hold wrong blocks until it is reset",
            {{"request_id", x_.receipt_.id},
             {"endpoint", x_.leg_.endpoint().name()},
             {"prefill", prefill.name()}});
    }
    co_return reading_.value_or(Reading::InTime);
}

net::Task<void> PdExchange::let_go() {
    if (is_refused_) {
        // What was refused was not read.
        handoff_.take_back();
        co_await release_blocks();
    }
}

// The client left after prefill had answered: its engine holds blocks for nobody. A decode leg is
// sent only so that it lets them go.
net::Task<void> PdExchange::release_blocks() {
    if (!may_release_ || !has_object_) {
        co_return;
    }
    net::Cancel halt(x_.worker_.last_words);
    Scene scene{.worker = x_.worker_,
                .client = x_.client_,
                .receipt = x_.receipt_,
                .halt = halt,
                .service = x_.service_.get(),
                .client_ip = x_.scene_.client_ip,
                .deadline_us = x_.worker_.loop.after(std::chrono::milliseconds(kReleaseMs))};
    // One that could not be reached so far will not be in the short time there is.
    const bool is_unreached = x_.leg_.has_run() && x_.leg_.record().connect_us == 0;
    if (is_unreached && has_other(rules::kRoleDecode, decode_.index)) {
        tried_[rules::kRoleDecode].push_back(decode_.index);
    }
    x_.leg_.close();
    ReplyHead head;
    std::string memory;
    Leg leg(scene, head, memory);
    if (is_unreached) {
        decode_ = choose(rules::kRoleDecode);
    }
    if (!decode_.is_found || !enter_decode(leg)) {
        co_return;
    }
    LegEdits edits(body_);
    route::LegAsk ask = ask_of(SLUICE_LEG_DECODE);
    ask.flags = SLUICE_LEG_RELEASE;
    ask.handoff = object_for_decode();
    if (ask.handoff.empty() || build(edits, ask) != SLUICE_OK) {
        co_return;
    }
    const Leg::Sending sending{.kind = route::LegKind::Decode,
                               .decision = decode_,
                               .attempt = attempt_,
                               .pieces = edits.pieces(),
                               .body_bytes = edits.size(),
                               .headers = edits.headers(),
                               .first_byte_ms = kReleaseMs,
                               .is_once = true,
                               .most_idle_us = most_idle_us(true),
                               .send_by_us = handoff_.good_until_us(),
                               .carried = &handoff_};
    const Leg::End end = co_await leg.run(sending);
    leg.record().done_us = x_.scene_.since_start_us();
    if (end == Leg::End::Stale || Leg::is_before_begin(end)) {
        co_return;  // the blocks come back with the lease
    }
    const bool is_refused = end == Leg::End::Head && leg.status() >= 300;
    leg.record().verdict = is_refused ? "refused" : "released";
    if (!is_refused) {
        handoff_.was_released();
    }
}

}  // namespace sluice::flow
