// Both legs at once: prefill runs beside the decode leg, which waits for it in its engine.
//
// A decode engine whose prefill fails would wait for ever, so until its answer begins the failure
// ends it, and what follows is what follows after a prefill of its own. The answer begins with a
// byte of its body: a stream's head says nothing of the blocks.
#include <algorithm>

#include "core/flow/pd_exchange.hpp"

namespace sluice::flow {

net::Task<PdExchange::Step> PdExchange::both() {
    const Step built = build_prefill();
    if (built != Step::Answered) {
        co_return built;
    }
    is_prefilling_ = true;
    is_answering_ = is_read_ = false;
    beside_.spawn(prefill_beside());
    phase_ = "decode";
    const Step answered = co_await decode();
    const bool goes_on = answered == Step::Answered && !x_.ready_ && x_.status_ < 300;
    if (answered == Step::Over && x_.client_.departure().fired() && !is_prefilling_) {
        co_await let_read();
    }
    if (!goes_on) {
        stop_prefill();
    }
    co_return answered;
}

net::Task<void> PdExchange::prefill_beside() {
    prefill_end_ = co_await send_prefill();
    is_prefilling_ = false;
    slot_.release();
    Leg& leg = prefill_leg_.leg();
    if (prefill_end_ == Leg::End::Interrupted) {
        leg.record().verdict = "cut_off";
        co_return;  // so is the decode leg
    }
    if (prefill_end_ == Leg::End::Head) {
        hear_prefill();
        if (heard_.next == SLUICE_NEXT_CONTINUE) {
            if (is_answering_) {
                x_.cached_tokens_ = heard_.cached_tokens;
            }
            if (is_read_) {
                handoff_.was_read();
            }
            prefill_leg_.close();
            co_return;
        }
    }
    if (is_answering_) {
        // The decode engine did without.
        leg.record().verdict = "ignored";
        prefill_leg_.close();
        co_return;
    }
    is_prefill_bad_ = true;
    x_.answer_halt_.fire();
}

// The answer is over, or nobody waits for it.
void PdExchange::stop_prefill() {
    if (!is_prefilling_) {
        return;
    }
    beside_.clear();
    is_prefilling_ = false;
    if (!x_.client_.departure().fired()) {
        x_.worker_.pd_metrics.counters.decode_close_drain.add();
    }
    route::LegRecord& record = prefill_leg_.leg().record();
    record.verdict = "cut_off";
    record.done_us = x_.scene_.since_start_us();
    prefill_leg_.close();
    slot_.release();
}

PdExchange::Step PdExchange::fail_with_prefill() {
    phase_ = "prefill";
    is_prefill_bad_ = false;
    if (x_.leg_.is_held()) {
        x_.worker_.pd_metrics.counters.prefill_abort_decode.add();
        x_.leg_.record().verdict = "cut_off";
        x_.leg_.record().done_us = x_.scene_.since_start_us();
    }
    x_.leg_.close();
    x_.status_ = 0;
    x_.first_byte_us_ = 0;
    x_.first_part_ = {};
    x_.has_first_part_ = false;
    if (x_.halt_.fired()) {
        return interrupted();
    }
    const Step step = act_on_prefill(prefill_end_);
    return step == Step::Rebuilt ? Step::Again : step;
}

// A head without a byte behind it is held back while prefill may still fail.
net::Task<Leg::End> PdExchange::hold_head(Leg::End end) {
    while (end == Leg::End::Head && is_prefilling_ && !x_.has_first_part_ && x_.status_ < 300) {
        end = co_await x_.peek(false, true);
    }
    co_return end;
}

// The client left when prefill held blocks for the decode leg that is under way: it is kept for a
// moment, so that it reads them.
net::Task<void> PdExchange::let_read() {
    Leg& leg = x_.leg_;
    if (!handoff_.is_open() || !leg.is_held() || !leg.is_sent()) {
        co_return;
    }
    const net::Wait patience{x_.worker_.loop.after(std::chrono::milliseconds(kReleaseMs)),
                             &x_.worker_.last_words};
    if (leg.record().status == 0) {
        const auto head = co_await leg.upstream().read_head(patience);
        if (!head) {
            co_return;
        }
    }
    const auto part = co_await leg.upstream().read_body(patience);
    if (part) {
        leg.record().verdict = "released";
        handoff_.was_released();
    }
}

}  // namespace sluice::flow
