// The first leg of a split request, and what its reply means.
#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/flow/pd_exchange.hpp"
#include "core/flow/sdk_error.hpp"
#include "core/route/transfer_ids.hpp"

namespace sluice::flow {
namespace {

// Where the adapter puts what it takes from a reply.
struct ReplySinks {
    using OnIds = void (*)(void* owner, std::span<const std::uint32_t> ids);
    ReplySinks(std::size_t most, void* of, OnIds ids) : most_bytes(most), owner(of), on_ids(ids) {}
    sluice_reply_out out() noexcept {
        sluice_reply_out o{};
        o.size = sizeof o;
        o.cached_tokens = SLUICE_ANY;
        o.handoff = {this, [](void* ctx, const void* data, std::size_t len) -> sluice_status {
                         auto& self = *static_cast<ReplySinks*>(ctx);
                         return self.add(self.handoff, data, len);
                     }};
        o.body = {this, [](void* ctx, const void* data, std::size_t len) -> sluice_status {
                      auto& self = *static_cast<ReplySinks*>(ctx);
                      return self.add(self.body, data, len);
                  }};
        o.ctx = this;
        o.set_header = [](void* ctx, sluice_str name, sluice_str value) -> sluice_status {
            auto& self = *static_cast<ReplySinks*>(ctx);
            const sluice_leg_out checked = self.headers.out();
            return checked.set_header(checked.ctx, name, value);
        };
        o.prompt_ids = [](void* ctx, const std::uint32_t* ids, std::size_t num) {
            const auto& self = *static_cast<ReplySinks*>(ctx);
            if (num != 0) {
                self.on_ids(self.owner, {ids, num});
            }
        };
        return o;
    }
    sluice_status add(std::string& to, const void* data, std::size_t len) const {
        if (len > most_bytes - std::min(most_bytes, to.size())) {
            return SLUICE_E_LIMIT;
        }
        to.append(static_cast<const char*>(data), len);
        return SLUICE_OK;
    }
    const std::size_t most_bytes;
    void* const owner;
    const OnIds on_ids;
    std::string handoff;
    std::string body;
    LegEdits headers{{}};
};

}  // namespace

bool PdExchange::build(LegEdits& edits, const route::LegAsk& ask) {
    auto err = empty_error();
    sluice_leg_out out = edits.out();
    const sluice_status built = x_.service_->engine->build_leg(ask, out, &err);
    if (built == SLUICE_OK && edits.is_good()) {
        note_engine_id(edits);
        return true;
    }
    log::warn("a leg cannot be built",
              {{"request_id", x_.receipt_.id},
               {"leg", ask.kind == SLUICE_LEG_PREFILL ? "prefill" : "decode"},
               {"reason", words_of(err, "the adapter's edits are not of this body")}});
    return false;
}

// The request id that the leg goes out with, if it is another one than the client knows.
void PdExchange::note_engine_id(LegEdits& edits) {
    const std::string_view id = http::header_value(edits.headers(), "x-request-id");
    x_.engine_id_ = id == x_.receipt_.id ? std::string_view() : id;
}

net::Task<PdExchange::Step> PdExchange::prefill() {
    transfer_id_ = route::transfer_ids().next(wall_us());
    LegEdits edits(body_);
    const route::LegAsk ask{.kind = SLUICE_LEG_PREFILL,
                            .endpoint = prefill_.index,
                            .peer = decode_.index,
                            .rank = prefill_.rank,
                            .transfer_id = transfer_id_,
                            .request = &request_->at_attempt(attempt_ - 1)};
    if (!build(edits, ask)) {
        x_.refuse({502, "pd_prefill_failed", "the prefill leg cannot be built", {}, "api_error"});
        co_return Step::Over;
    }
    x_.note_prediction(prefill_);
    x_.predicted_by_ = prefill_.index;
    if (x_.has_prompt_) {
        x_.receipt_.prompt_tokens = static_cast<std::uint32_t>(x_.scratch_->prompt.tokens.size());
    }
    prefill_sent_us_ = x_.scene_.now_us();
    prefill_epoch_ = prefill_leg_.endpoint().epoch();
    prefill_scene_.deadline_us = x_.scene_.deadline_us;
    if (spec_.prefill_ms != 0) {
        prefill_scene_.deadline_us =
            std::min(x_.scene_.deadline_us, prefill_sent_us_ + spec_.prefill_ms * 1000U);
    }
    const Leg::Sending sending{.kind = route::LegKind::Prefill,
                               .decision = prefill_,
                               .attempt = attempt_,
                               .pieces = edits.pieces(),
                               .body_bytes = edits.size(),
                               .headers = edits.headers(),
                               .first_byte_ms = 0};
    Leg::End end = co_await prefill_leg_.run(sending);
    prefill_leg_.record().queued_us = queued_us_;
    if (end == Leg::End::Head) {
        end = co_await read_prefill();
    }
    prefill_leg_.record().done_us = x_.scene_.since_start_us();
    switch (end) {
        case Leg::End::Head:
            break;
        case Leg::End::Interrupted:
            prefill_leg_.record().verdict = "cut_off";
            co_return interrupted();
        case Leg::End::Unreached:
        case Leg::End::TakenOut:
        case Leg::End::Outdated:
            co_return cure(PdFault::PrefillUnreached);
        case Leg::End::Overdue:
        case Leg::End::Late:
            if (x_.is_overdue()) {
                x_.refuse_timeout();
                co_return Step::Over;
            }
            prefill_leg_.permit().failed("no answer in time", x_.scene_.now_us());
            co_return cure(PdFault::PrefillLate);
        case Leg::End::Gone:
        case Leg::End::Died:
        case Leg::End::Stale:
        case Leg::End::Garbled:
            x_.worker_.pd_metrics.counters.prefill_died.add();
            co_return cure(PdFault::PrefillDied);
    }
    co_return judge_prefill();
}

// The whole reply, as far as it is kept.
net::Task<Leg::End> PdExchange::read_prefill() {
    reply_.clear();
    is_reply_cut_ = false;
    const std::size_t most = x_.worker_.shared.max_prefill_reply_bytes;
    const std::uint64_t gap_ms = x_.service_->rule->timeouts.chunk_gap_ms;
    http::UpstreamStream& upstream = prefill_leg_.upstream();
    while (!upstream.is_complete()) {
        auto part = co_await upstream.read_body(prefill_leg_.next_wait(gap_ms));
        while (!part && prefill_leg_.is_pause(part.error())) {
            part = co_await upstream.read_body(prefill_leg_.same_wait());
        }
        if (!part) {
            co_return prefill_leg_.lose(part.error());
        }
        is_reply_cut_ = is_reply_cut_ || part->bytes.size() > most - reply_.size();
        if (!is_reply_cut_) {
            reply_ += part->bytes;
        } else {
            // What is left is read past: a connection that is cut would end the engine's request,
            // which is over already.
            reply_.resize(std::min<std::size_t>(reply_.size(), kKeptOfCut));
        }
    }
    prefill_leg_.record().bytes = reply_.size();
    co_return Leg::End::Head;
}

PdExchange::Step PdExchange::judge_prefill() {
    PdCounters& counters = x_.worker_.pd_metrics.counters;
    const std::uint64_t now = x_.scene_.now_us();
    const int status = prefill_leg_.status();
    route::LegRecord& record = prefill_leg_.record();
    metrics_.prefill->observe(static_cast<double>(now - prefill_sent_us_) * 1e-6);
    std::vector<sluice_pair> headers;
    for (const http::Header& h : prefill_reply_.headers()) {
        headers.push_back({{h.name.data(), h.name.size()}, {h.value.data(), h.value.size()}});
    }
    sluice_reply reply{};
    reply.size = sizeof reply;
    reply.flags = is_reply_cut_ ? std::uint32_t{SLUICE_REPLY_CUT} : 0U;
    reply.http_code = static_cast<std::uint32_t>(status);
    reply.num_headers = static_cast<std::uint32_t>(headers.size());
    reply.headers = headers.data();
    reply.body = {reinterpret_cast<const std::uint8_t*>(reply_.data()), reply_.size()};
    ReplySinks sinks(x_.worker_.shared.max_prefill_reply_bytes, this,
                     [](void* self, std::span<const std::uint32_t> ids) {
                         static_cast<PdExchange*>(self)->note_prompt_ids(ids);
                     });
    sluice_reply_out out = sinks.out();
    auto err = empty_error();
    const route::LegAsk ask{.kind = SLUICE_LEG_PREFILL,
                            .endpoint = prefill_.index,
                            .peer = decode_.index,
                            .rank = prefill_.rank,
                            .transfer_id = transfer_id_,
                            .request = &request_->at_attempt(attempt_ - 1)};
    const sluice_status heard = x_.service_->engine->on_reply(ask, reply, out, &err);
    const std::uint32_t next = heard == SLUICE_OK ? out.next : std::uint32_t{SLUICE_NEXT_FAIL};
    const bool is_load = next == SLUICE_NEXT_BUSY || status == 429 ||
                         (status == 503 && !prefill_reply_.header("Retry-After").empty());
    fleet::Permit& permit = prefill_leg_.permit();
    if (status < 500 && status != 429) {
        permit.answered();
        permit.completed();
        prefill_leg_.endpoint().note_answered();
    } else {
        is_load ? permit.release() : permit.origin_error(now);
    }
    if (is_reply_cut_) {
        counters.overflow.add();
    }
    if (next == SLUICE_NEXT_CONTINUE || next == SLUICE_NEXT_ANSWER) {
        learn_prefix();
        if (out.cached_tokens != SLUICE_ANY) {
            cached_tokens_ = out.cached_tokens;
        }
    }
    switch (next) {
        case SLUICE_NEXT_CONTINUE: {
            record.verdict = "handed_over";
            has_object_ = !sinks.handoff.empty();
            may_release_ = has_object_ && (out.hold & SLUICE_HOLD_RELEASE) != 0;
            if (has_object_ || out.lease_us != 0) {
                handoff_ = x_.service_->pd->handoffs->open(
                    std::move(sinks.handoff), prefill_leg_.endpoint().id(), out.lease_us, now);
            }
            if ((plan_.flags & SLUICE_PLAN_HANDOFF) != 0) {
                (has_object_ ? metrics_.params_found : metrics_.params_missing)->add();
                if (!has_object_) {
                    record.verdict = "no_handoff";
                    counters.recomputed.add();
                    handoff_.abandon();
                }
            }
            prefill_leg_.close();
            return Step::Answered;
        }
        case SLUICE_NEXT_ANSWER:
            record.verdict = "early_exit";
            counters.early_exit.add();
            learn_session();
            x_.ready_.emplace();
            x_.ready_->status = 200;
            x_.ready_->body = std::move(sinks.body);
            for (const http::Header& h : sinks.headers.headers()) {
                x_.ready_->headers.emplace_back(h.name, h.value);
            }
            prefill_leg_.close();
            return Step::Answered;
        case SLUICE_NEXT_RELAY:
            return relay_prefill();
        case SLUICE_NEXT_BUSY:
            record.verdict = "busy";
            return cure(PdFault::PrefillBusy);
        case SLUICE_NEXT_ELSEWHERE:
            record.verdict = "refused";
            prefill_leg_.endpoint().pass_over(
                status == 500 ? fleet::Mark::Draining : fleet::Mark::Refused, now);
            return cure(PdFault::PrefillBroken);
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
    x_.refuse({502,
               "pd_prefill_failed",
               words_of(err, "the prefill endpoint's answer cannot be used"),
               {},
               "api_error"});
    return Step::Over;
}

// The engine says what the prompt is to it: whether our tokens are its own.
void PdExchange::note_prompt_ids(std::span<const std::uint32_t> ids) {
    const route::Prompt& prompt = x_.scratch_->prompt;
    if (!x_.has_prompt_ || !x_.is_text_prompt_ || !prompt.miss.empty() ||
        !x_.service_->is_kv_watched(prefill_.index)) {
        return;
    }
    const bool is_same =
        std::equal(ids.begin(), ids.end(), prompt.tokens.begin(), prompt.tokens.end());
    const bool is_chat = x_.facts_.api == route::Api::Chat;
    const auto kind = is_chat ? route::TokensOf::Template : route::TokensOf::Text;
    if (x_.service_->kv_members[prefill_.index]->note_engine_tokens(kind, is_same)) {
        log::warn("an engine's tokens of prompts are others than ours",
                  {{"endpoint", prefill_leg_.endpoint().name()},
                   {"request_id", x_.receipt_.id},
                   {"attestation", is_chat ? "mismatch:template" : "mismatch:tokenizer"},
                   {"tokens", prompt.tokens.size()},
                   {"engine_tokens", ids.size()}});
    }
}

PdExchange::Step PdExchange::relay_prefill() {
    prefill_leg_.record().verdict = "relayed";
    if (prefill_leg_.status() < 500) {
        x_.worker_.pd_metrics.counters.prefill_reject_relay.add();
    }
    const int status = prefill_leg_.status();
    if ((status == 429 || status == 503) && prefill_reply_.header("Retry-After").empty()) {
        prefill_reply_.ask_to_come_later();
    }
    x_.ready_.emplace();
    x_.ready_->status = status;
    x_.ready_->body = std::move(reply_);
    for (const http::Header& h : prefill_reply_.for_client(x_.receipt_.id, false)) {
        x_.ready_->headers.emplace_back(h.name, h.value);
    }
    prefill_leg_.close();
    return Step::Answered;
}

}  // namespace sluice::flow
