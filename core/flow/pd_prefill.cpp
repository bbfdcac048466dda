// The first leg of a split request, and what its reply means.
#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/flow/pd_exchange.hpp"
#include "core/flow/sdk_error.hpp"
#include "core/route/transfer_ids.hpp"

namespace sluice::flow {
namespace {

// Of a reply that the plan lets nobody read.
constexpr std::size_t kKeptOfDrained = 4096;

}  // namespace

route::LegAsk PdExchange::ask_of(std::uint32_t kind) {
    const bool is_prefill = kind == SLUICE_LEG_PREFILL;
    return {.kind = kind,
            .endpoint = is_prefill ? prefill_.index : decode_.index,
            .peer = is_prefill ? decode_.index : prefill_.index,
            .rank = is_prefill ? prefill_.rank : std::uint32_t{SLUICE_ANY},
            .peer_rank = is_prefill ? std::uint32_t{SLUICE_ANY} : prefill_.rank,
            .transfer_id = transfer_id_,
            .request = &request_->at_attempt(attempt_ - 1)};
}

sluice_status PdExchange::build(LegEdits& edits, const route::LegAsk& ask) {
    auto err = empty_error();
    sluice_leg_out out = edits.out();
    const sluice_status built = x_.service_->engine->build_leg(ask, out, &err);
    if (built == SLUICE_OK && edits.is_good()) {
        note_engine_id(edits);
        return SLUICE_OK;
    }
    log::warn("a leg cannot be built",
              {{"request_id", x_.receipt_.id},
               {"leg", ask.kind == SLUICE_LEG_PREFILL ? "prefill" : "decode"},
               {"reason", words_of(err, "the adapter's edits are not of this body")}});
    return built == SLUICE_OK ? SLUICE_E_INVALID : built;
}

// The request id that the leg goes out with, if it is another one than the client knows.
void PdExchange::note_engine_id(LegEdits& edits) {
    const std::string_view id = http::header_value(edits.headers(), "x-request-id");
    x_.engine_id_ = id == x_.receipt_.id ? std::string_view() : id;
}

net::Task<PdExchange::Step> PdExchange::prefill() {
    const Step built = build_prefill();
    if (built != Step::Answered) {
        co_return built;
    }
    const Leg::End end = co_await send_prefill();
    if (end == Leg::End::Head) {
        hear_prefill();
    }
    co_return act_on_prefill(end);
}

// Answered: it may be sent.
PdExchange::Step PdExchange::build_prefill() {
    transfer_id_ = route::transfer_ids().next(wall_us());
    prefill_edits_.emplace(body_);
    const sluice_status built = build(*prefill_edits_, ask_of(SLUICE_LEG_PREFILL));
    if (built == SLUICE_E_UNAVAILABLE) {
        return cure(PdFault::PrefillUnready);
    }
    if (built != SLUICE_OK) {
        x_.refuse({502, "pd_prefill_failed", "the prefill leg cannot be built", {}, "api_error"});
        return Step::Over;
    }
    x_.note_prediction(prefill_);
    x_.predicted_by_ = prefill_.index;
    if (x_.has_prompt_) {
        x_.receipt_.prompt_tokens = static_cast<std::uint32_t>(x_.scratch_->prompt.tokens.size());
    }
    return Step::Answered;
}

net::Task<Leg::End> PdExchange::send_prefill() {
    PrefillLeg::Limits limits{.deadline_us = x_.scene_.deadline_us,
                              .most_bytes = (plan_.flags & SLUICE_PLAN_DRAIN) != 0
                                                ? kKeptOfDrained
                                                : x_.worker_.shared.max_prefill_reply_bytes};
    if (spec_.prefill_ms != 0) {
        limits.deadline_us =
            std::min(limits.deadline_us, x_.scene_.now_us() + spec_.prefill_ms * 1000U);
    }
    const Leg::Sending sending{.kind = route::LegKind::Prefill,
                               .decision = prefill_,
                               .attempt = attempt_,
                               .pieces = prefill_edits_->pieces(),
                               .body_bytes = prefill_edits_->size(),
                               .headers = prefill_edits_->headers(),
                               // Two of one transfer id would meet the same decode leg.
                               .is_once = is_concurrent(),
                               .most_idle_us = most_idle_us(is_concurrent())};
    const Leg::End end = co_await prefill_leg_.run(sending, limits);
    prefill_leg_.leg().record().queued_us = queued_us_;
    co_return end;
}

// What the reply says, before anything follows from it.
void PdExchange::hear_prefill() {
    metrics_.prefill->observe(static_cast<double>(x_.scene_.now_us() - prefill_leg_.sent_us()) *
                              1e-6);
    heard_ = prefill_leg_.hear(*x_.service_->engine, ask_of(SLUICE_LEG_PREFILL));
    if (prefill_leg_.is_cut() && (plan_.flags & SLUICE_PLAN_DRAIN) == 0) {
        x_.worker_.pd_metrics.counters.overflow.add();
    }
    note_prompt_ids();
    if (heard_.next == SLUICE_NEXT_CONTINUE || heard_.next == SLUICE_NEXT_ANSWER) {
        learn_prefix();
    }
    if (heard_.next == SLUICE_NEXT_CONTINUE) {
        open_handoff();
    }
}

void PdExchange::open_handoff() {
    route::LegRecord& record = prefill_leg_.leg().record();
    record.verdict = "handed_over";
    has_object_ = !heard_.handoff.empty();
    may_release_ = heard_.can_release;
    reading_.reset();
    counts_before_.reset();
    const fleet::Load counts = prefill_leg_.leg().endpoint().load();
    if (heard_.is_counted && counts.at_us != 0) {
        counts_before_ = counts;
    }
    if (has_object_ || heard_.lease_us != 0) {
        handoff_ = x_.service_->pd->handoffs->open(std::move(heard_.handoff),
                                                   prefill_leg_.leg().endpoint().id(),
                                                   heard_.lease_us, x_.scene_.now_us());
    }
    if ((plan_.flags & SLUICE_PLAN_HANDOFF) == 0) {
        return;
    }
    (has_object_ ? metrics_.params_found : metrics_.params_missing)->add();
    if (!has_object_) {
        record.verdict = "no_handoff";
        x_.worker_.pd_metrics.counters.recomputed.add();
        handoff_.abandon();
    }
}

PdExchange::Step PdExchange::act_on_prefill(Leg::End end) {
    Leg& leg = prefill_leg_.leg();
    switch (end) {
        case Leg::End::Head:
            break;
        case Leg::End::Interrupted:
            leg.record().verdict = "cut_off";
            return interrupted();
        case Leg::End::Unreached:
        case Leg::End::TakenOut:
        case Leg::End::Outdated:
            return cure(PdFault::PrefillUnreached);
        case Leg::End::Overdue:
        case Leg::End::Late:
            if (x_.is_overdue()) {
                x_.refuse_timeout();
                return Step::Over;
            }
            leg.permit().failed("no answer in time", x_.scene_.now_us());
            return cure(PdFault::PrefillLate);
        case Leg::End::Gone:
        case Leg::End::Died:
        case Leg::End::Stale:
        case Leg::End::Garbled:
            x_.worker_.pd_metrics.counters.prefill_died.add();
            return cure(PdFault::PrefillDied);
    }
    return act_on_reply();
}

PdExchange::Step PdExchange::act_on_reply() {
    Leg& leg = prefill_leg_.leg();
    route::LegRecord& record = leg.record();
    switch (heard_.next) {
        case SLUICE_NEXT_CONTINUE:
            prefill_leg_.close();
            return Step::Answered;
        case SLUICE_NEXT_ANSWER:
            record.verdict = "early_exit";
            x_.worker_.pd_metrics.counters.early_exit.add();
            x_.cached_tokens_ = heard_.cached_tokens;
            learn_session();
            x_.ready_.emplace();
            x_.ready_->status = 200;
            x_.ready_->body = std::move(heard_.body);
            x_.ready_->headers = std::move(heard_.headers);
            prefill_leg_.close();
            return Step::Answered;
        case SLUICE_NEXT_RELAY:
            return relay_prefill();
        case SLUICE_NEXT_BUSY:
            record.verdict = "busy";
            return cure(PdFault::PrefillBusy);
        case SLUICE_NEXT_ELSEWHERE:
            record.verdict = "refused";
            leg.endpoint().pass_over(
                leg.status() == 500 ? fleet::Mark::Draining : fleet::Mark::Refused,
                x_.scene_.now_us());
            return cure(is_concurrent() ? PdFault::PrefillBrokenBeside : PdFault::PrefillBroken);
        case SLUICE_NEXT_REBUILD:
            // The adapter has learned what this very engine takes.
            if (is_prefill_rebuilt_ || !prefill_leg_.enter(prefill_.index)) {
                return relay_prefill();
            }
            record.verdict = "rebuilt";
            is_prefill_rebuilt_ = true;
            return Step::Rebuilt;
        case SLUICE_NEXT_RESTART:
            record.verdict = "restart";
            return cure(PdFault::PrefillRestart);
        default:
            break;
    }
    record.verdict = "unusable";
    return cure(PdFault::PrefillUnusable, heard_.reason);
}

// The engine says what the prompt is to it: whether our tokens are its own.
void PdExchange::note_prompt_ids() {
    const std::vector<std::uint32_t>& ids = heard_.prompt_ids;
    const route::Prompt& prompt = x_.scratch_->prompt;
    if (ids.empty() || !x_.has_prompt_ || !x_.is_text_prompt_ || !prompt.miss.empty() ||
        !x_.service_->is_kv_watched(prefill_.index)) {
        return;
    }
    const bool is_same = ids == prompt.tokens;
    const bool is_chat = x_.facts_.api == route::Api::Chat;
    const auto kind = is_chat ? route::TokensOf::Template : route::TokensOf::Text;
    if (x_.service_->kv_members[prefill_.index]->note_engine_tokens(kind, is_same)) {
        log::warn("an engine's tokens of prompts are others than ours",
                  {{"endpoint", prefill_leg_.leg().endpoint().name()},
                   {"request_id", x_.receipt_.id},
                   {"attestation", is_chat ? "mismatch:template" : "mismatch:tokenizer"},
                   {"tokens", prompt.tokens.size()},
                   {"engine_tokens", ids.size()}});
    }
}

// Some engines answer an error with the body they were sent, in a spelling of their own.
bool PdExchange::tells_of_engines(std::string_view error) const {
    const auto& reserved = x_.service_->traits.reserved_fields;
    return std::any_of(reserved.begin(), reserved.end(), [error](const std::string& name) {
        const std::size_t dot = name.rfind('.');
        const std::size_t begin = dot == std::string::npos ? 0 : dot + 1;
        return error.find(std::string_view(name).substr(begin)) != std::string_view::npos;
    });
}

// What an engine said of another engine is not the client's: it is told that it was refused.
PdExchange::Step PdExchange::hide_error(int status) {
    const bool is_clients = status < 500;
    x_.refuse({static_cast<std::uint16_t>(status),
               "pd_leg_refused",
               is_clients ? "an endpoint refused the request" : "an endpoint failed",
               {},
               is_clients ? "invalid_request_error" : "api_error"});
    return Step::Over;
}

PdExchange::Step PdExchange::relay_prefill() {
    Leg& leg = prefill_leg_.leg();
    ReplyHead& head = prefill_leg_.head();
    leg.record().verdict = "relayed";
    const int status = leg.status();
    if (status < 500) {
        x_.worker_.pd_metrics.counters.prefill_reject_relay.add();
    }
    if ((status == 429 || status == 503) && head.header("Retry-After").empty()) {
        head.ask_to_come_later();
    }
    std::string body = prefill_leg_.take_body();
    if (prefill_leg_.is_cut() || tells_of_engines(body)) {
        leg.record().verdict = "refused";
        prefill_leg_.close();
        return hide_error(status);
    }
    x_.ready_.emplace();
    x_.ready_->status = status;
    x_.ready_->body = std::move(body);
    for (const http::Header& h : head.for_client(x_.receipt_.id, false)) {
        x_.ready_->headers.emplace_back(h.name, h.value);
    }
    prefill_leg_.close();
    return Step::Answered;
}

}  // namespace sluice::flow
