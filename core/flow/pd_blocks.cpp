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

// An engine that had let the blocks go hands out whatever lies there now, without a fault. It
// counts what it lets go, so an answer that begins when the time of its blocks is over is kept back
// until the engine has said that it let none go, or no more than those that other requests gave up.
net::Task<bool> PdExchange::was_read_late() {
    const std::uint64_t begun = x_.scene_.now_us();
    if (was_read_late_ || !has_object_ || !expired_before_ || begun < handoff_.over_us()) {
        co_return was_read_late_.value_or(false);
    }
    const fleet::Endpoint& prefill = *(*x_.service_->pool)[prefill_.index].endpoint;
    fleet::Load load = prefill.load();
    // The first word after this moment may have been on its way before it.
    unsigned words = 0;
    was_read_late_ = false;
    while (words < 2 && handoff_.is_held() && x_.scene_.now_us() < begun + kWordUs) {
        const std::uint64_t before_us = load.at_us;
        (void)co_await x_.worker_.loop.sleep_until(
            x_.worker_.loop.after(std::chrono::milliseconds(50)), &x_.answer_halt_);
        if (x_.answer_halt_.fired()) {
            was_read_late_ = true;  // nobody waits for it, or it is not known in time
            break;
        }
        load = prefill.load();
        words += load.at_us != before_us ? 1 : 0;
        const std::uint64_t let_go =
            load.holds_expired - std::min(load.holds_expired, *expired_before_);
        if (let_go > handoff_.others_given_up()) {
            was_read_late_ = true;
            x_.worker_.pd_metrics.counters.late_reads.add();
            log::error(
                "a decode endpoint may have read blocks too late: its answer is dropped, and "
                "its prefix cache may hold wrong blocks until it is reset",
                {{"request_id", x_.receipt_.id},
                 {"endpoint", x_.leg_.endpoint().name()},
                 {"prefill", prefill.name()}});
            break;
        }
    }
    co_return *was_read_late_;
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
