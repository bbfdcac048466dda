#include "core/flow/pd_exchange.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/route/prompt_chain.hpp"

namespace sluice::flow {

PdExchange::PdExchange(Exchange& exchange)
    : x_(exchange),
      spec_(exchange.service_->rule->pd),
      metrics_(exchange.worker_.pd_metrics.of_model(
          exchange.worker_.metrics.label(exchange.receipt_.model))),
      prefill_leg_({.worker = exchange.worker_,
                    .client = exchange.client_,
                    .receipt = exchange.receipt_,
                    .halt = exchange.halt_,
                    .service = exchange.service_.get(),
                    .client_ip = exchange.scene_.client_ip}) {
    spent_.max_legs = exchange.service_->rule->retry.connect;
    spent_.may_repeat = exchange.service_->rule->retry.after_dispatch;
    view_body();
    read_affinity();
    request_.emplace(SdkRequest::From{.facts = x_.facts_,
                                      .request_id = x_.receipt_.id,
                                      .served_model = x_.served_model_,
                                      .client = x_.scene_.client_ip,
                                      .body = body_,
                                      .view = view_,
                                      .prompt = x_.has_prompt_ ? &x_.scratch_->prompt : nullptr});
}

PdExchange::~PdExchange() {
    if (reader_) {
        x_.worker_.readers.give_back(std::move(reader_));
    }
}

// The adapter's spans are of the text that goes upstream: what the client may not say is out of it
// already, and it is seen by nobody.
void PdExchange::view_body() {
    body_ = x_.body_;
    view_ = x_.facts_.body;
    if (!x_.edits_ || x_.edits_->empty()) {
        return;
    }
    flat_.reserve(x_.body_bytes_ + json::kSlack);
    for (const std::string_view piece : x_.scratch_->pieces) {
        flat_ += piece;
    }
    body_ = flat_;
    reader_ = x_.worker_.readers.take();
    const auto parsed = reader_->parse(body_);
    view_ = parsed ? *parsed : nullptr;
}

void PdExchange::read_affinity() {
    if (view_ == nullptr) {
        return;
    }
    json::BodyReader& reader = reader_ ? *reader_ : *x_.reader_;
    x_.session_ = route::session_of(x_.client_.head().headers, view_, &reader);
    if (!spec_.is_cache_aware) {
        return;
    }
    route::assign_chain(chain_, *view_, x_.facts_, x_.served_model_,
                        x_.has_prompt_ ? &x_.scratch_->prompt : nullptr);
}

net::Task<bool> PdExchange::run() {
    sluice_error err{};
    err.size = sizeof err;
    plan_.size = sizeof plan_;
    plan_.kind = SLUICE_PLAN_WHOLE;
    if (view_ != nullptr) {
        const sluice_status planned =
            x_.service_->engine->plan(request_->at_attempt(0), plan_, &err);
        if (planned == SLUICE_E_UNSUPPORTED) {
            co_return x_.refuse(
                {400,
                 "pd_unsupported_request",
                 std::string(err.msg, std::min<std::size_t>(err.len, sizeof err.msg)),
                 {}});
        }
        if (planned != SLUICE_OK) {
            plan_.kind = SLUICE_PLAN_WHOLE;
        }
    }
    const bool is_pair = plan_.kind == SLUICE_PLAN_SEQUENTIAL || is_concurrent();
    if (!is_pair || is_short()) {
        const bool answered = co_await run_whole(rules::kRoleDecode);
        co_return answered;
    }
    is_split_ = true;
    while (true) {
        ++attempt_;
        const Step step = co_await pair();
        if (step == Step::Answered || step == Step::Over) {
            co_return step == Step::Answered;
        }
        stop_prefill();
        is_prefill_bad_ = false;
        if (!x_.halt_.fired()) {
            x_.answer_halt_.reset();
        }
        prefill_leg_.close();
        x_.leg_.close();
        x_.first_part_ = {};
        x_.has_first_part_ = false;
        slot_.release();
        handoff_.abandon();
        has_object_ = may_release_ = false;
        if (step == Step::Plain) {
            is_split_ = false;
            const bool answered = co_await run_whole(spare_role_.value_or(rules::kRoleDecode));
            co_return answered;
        }
    }
}

bool PdExchange::is_short() const {
    const route::Prompt& prompt = x_.scratch_->prompt;
    return spec_.min_prompt_tokens > 0 && x_.has_prompt_ && prompt.miss.empty() &&
           prompt.tokens.size() < spec_.min_prompt_tokens;
}

// One leg that does everything, on a decode endpoint; in need on one without a role.
net::Task<bool> PdExchange::run_whole(std::uint32_t role) {
    if (role == rules::kRoleDecode && !has_other(role, SIZE_MAX)) {
        role = rules::kRoleWhole;
    }
    if (role == rules::kRoleWhole && has_other(role, SIZE_MAX)) {
        x_.worker_.pd_metrics.counters.fallback.add();
    }
    x_.role_ = role;
    x_.legs_before_ = x_.receipt_.legs.size();
    x_.scratch_->tried = tried_[role];
    phase_ = "decode";
    const bool answered = co_await x_.dispatch();
    co_return answered;
}

net::Task<PdExchange::Step> PdExchange::pair() {
    decode_ = choose(rules::kRoleDecode);
    if (!decode_.is_found) {
        phase_ = "decode";
        co_return cure(PdFault::NoDecode);
    }
    if (holds_prompt(decode_)) {
        spare_role_ = rules::kRoleDecode;
        x_.receipt_.misses.push_back({route::Tier::None, "decode_holds_prompt"});
        co_return Step::Plain;
    }
    phase_ = "prefill";
    const Step admitted = co_await admit();
    if (admitted != Step::Answered) {
        co_return admitted;
    }
    if (!is_fit(decode_.index)) {
        // It may have been long.
        decode_ = choose(rules::kRoleDecode);
        if (!decode_.is_found) {
            co_return cure(PdFault::NoDecode);
        }
    }
    if (is_concurrent()) {
        const Step answered = co_await both();
        co_return answered;
    }
    Step prefilled = co_await prefill();
    if (prefilled == Step::Rebuilt) {
        ++attempt_;
        prefilled = co_await prefill();
    }
    slot_.release();
    if (prefilled != Step::Answered || x_.ready_) {
        co_return prefilled;
    }
    phase_ = "decode";
    const Step answered = co_await decode();
    if (answered == Step::Over && x_.client_.departure().fired() && handoff_.is_good(now_us())) {
        co_await release_blocks();
    }
    co_return answered;
}

PdExchange::Step PdExchange::interrupted() {
    x_.interrupted();
    return Step::Over;
}

PdExchange::Step PdExchange::cure(PdFault fault, std::string_view words) {
    PdCounters& counters = x_.worker_.pd_metrics.counters;
    const bool is_prefill = fault <= PdFault::PrefillRestart;
    const std::size_t index = is_prefill ? prefill_.index : decode_.index;
    const std::uint32_t role = is_prefill ? rules::kRolePrefill : rules::kRoleDecode;
    // The same endpoint may get it once more.
    const bool is_begun = fault == PdFault::PrefillDied || fault == PdFault::PrefillRestart ||
                          fault == PdFault::DecodeStale || fault == PdFault::DecodeDied ||
                          fault == PdFault::DecodeRestart;
    const bool is_missing = fault == PdFault::NoPrefill || fault == PdFault::NoDecode;
    if (!is_missing) {
        const bool is_died = fault == PdFault::PrefillDied && has_other(role, index);
        if ((!is_begun || is_died) &&
            std::find(tried_[role].begin(), tried_[role].end(), index) == tried_[role].end()) {
            tried_[role].push_back(index);
        }
        spent_.has_other = has_other(role, is_begun ? SIZE_MAX : index);
    }
    if (fault == PdFault::PrefillUnready) {
        x_.receipt_.misses.push_back({route::Tier::None, "prefill_unready"});
    }
    const PdAdvice advice = advice_for(fault, spent_);
    switch (advice.cure) {
        case PdCure::Pair:
            if (fault == PdFault::PrefillUnreached) {
                counters.connect_failover.add();
            }
            if (is_begun && is_concurrent()) {
                counters.pair_retry.add();
            }
            is_begun ? ++spent_.restarts : ++spent_.legs;
            return Step::Again;
        case PdCure::Decode:
            ++spent_.legs;
            return Step::Again;  // decode() goes on
        case PdCure::Plain:
            counters.recomputed.add();
            spare_role_ = rules::kRoleDecode;
            return Step::Plain;
        case PdCure::Spare:
            return spare(advice.refusal, is_prefill);
        case PdCure::Relay:
            return is_prefill ? relay_prefill() : Step::Answered;
        case PdCure::Refuse:
            break;
    }
    x_.refuse({advice.refusal.status,
               advice.refusal.code,
               std::string(words.empty() ? advice.refusal.message : words),
               {},
               "api_error"});
    return Step::Over;
}

// Whoever serves whole requests in need: an endpoint without a role, else decode alone if the rule
// says so.
PdExchange::Step PdExchange::spare(const PdRefusal& refusal, bool is_prefill_missing) {
    if (has_other(rules::kRoleWhole, SIZE_MAX)) {
        spare_role_ = rules::kRoleWhole;
        return Step::Plain;
    }
    if (is_prefill_missing && spec_.has_decode_fallback &&
        has_other(rules::kRoleDecode, SIZE_MAX)) {
        x_.worker_.pd_metrics.counters.recomputed.add();
        spare_role_ = rules::kRoleDecode;
        return Step::Plain;
    }
    x_.refuse({refusal.status,
               refusal.code,
               std::string(refusal.message),
               {},
               "api_error",
               x_.service_->pool->retry_after_sec(x_.scene_.now_us())});
    return Step::Over;
}

void PdExchange::settle() {
    stop_prefill();
    if (x_.receipt_.outcome == route::Outcome::ClientClosed) {
        PdMetrics::count_request(metrics_, "unknown", "error");
        return;
    }
    const std::string_view status = x_.receipt_.outcome == route::Outcome::Ok && x_.status_ < 500
                                        ? "success"
                                    : x_.receipt_.outcome == route::Outcome::Timeout ? "timeout"
                                                                                     : "error";
    PdMetrics::count_request(metrics_, status == "success" ? "complete" : phase_, status);
    if (is_split_ && decode_sent_us_ != 0 && x_.leg_.has_run() && status == "success") {
        metrics_.decode_duration->observe(
            static_cast<double>(x_.scene_.now_us() - decode_sent_us_) * 1e-6);
    }
}

}  // namespace sluice::flow
