// The middle of an exchange: choosing endpoints and trying them, until one answers.
#include <algorithm>

#include "core/flow/exchange.hpp"
#include "core/flow/pd_exchange.hpp"

namespace sluice::flow {
namespace {

// A head is held back this long for the first bytes behind it: an engine that dies at once is then
// still an honest 502.
constexpr std::uint64_t kHeadHoldMs = 250;
// So long the rest of an error is waited for, and by so much of it is judged.
constexpr std::uint64_t kErrorRestMs = 1000;
constexpr std::size_t kJudgedBytes = std::size_t{16} << 10U;

}  // namespace

net::Task<bool> Exchange::dispatch() {
    const rules::Rule& rule = *service_->rule;
    const std::size_t max_attempts = std::size_t{rule.retry.connect} + 1;
    while (true) {
        if (receipt_.legs.size() > legs_before_) {
            pass_over_removed();
        }
        route::Decision decision = worker_.ladder.choose(question(), receipt_);
        if (!decision.is_found) {
            if (turn_to_spare()) {
                continue;
            }
            co_return refuse_unrouted();
        }
        if (role_ == rules::kRoleWhole) {
            decision.tier = route::Tier::Rescue;
        }
        if (!leg_.enter(decision.index)) {
            continue;  // others took the last trials since the choice: it is made anew
        }
        note_prediction(decision);
        const Attempt outcome = co_await attempt(decision);
        switch (outcome) {
            case Attempt::Answered:
                co_return true;
            case Attempt::Over:
                co_return false;
            case Attempt::Elsewhere:
                break;
        }
        leg_.close();
        first_part_ = {};
        has_first_part_ = false;
        scratch_->tried.push_back(decision.index);
        if (receipt_.legs.size() - legs_before_ >= max_attempts && !turn_to_spare()) {
            co_return refuse_unrouted();
        }
    }
}

// No decode endpoint could be reached: one without a role takes the request, if there is one.
bool Exchange::turn_to_spare() {
    if (!pd_ || role_ != rules::kRoleDecode || !pd_->has_spare()) {
        return false;
    }
    worker_.pd_metrics.counters.fallback.add();
    role_ = rules::kRoleWhole;
    scratch_->tried.clear();
    legs_before_ = receipt_.legs.size();
    return true;
}

route::Question Exchange::question() const {
    return {.service = *service_,
            .facts = facts_,
            .served_model = served_model_,
            .prompt = has_prompt_ ? &scratch_->prompt : nullptr,
            .tried = scratch_->tried,
            .request_id = receipt_.id,
            .client = scene_.client_ip,
            .is_dry_run = false,
            .now_us = worker_.loop.now_us(),
            .role = role_,
            .session = session_};
}

void Exchange::note_prediction(const route::Decision& decision) {
    if (decision.block_tokens != 0) {
        receipt_.predicted_cached =
            std::int64_t{decision.matched_blocks} * std::int64_t{decision.block_tokens};
    }
}

bool Exchange::refuse_unrouted() {
    if (service_->pd) {
        const bool is_tried = receipt_.legs.size() > legs_before_;
        return refuse(
            {503,
             "pd_pool_unavailable",
             is_tried ? "decode endpoint unreachable" : "no healthy prefill or decode endpoint",
             {},
             "api_error",
             service_->pool->retry_after_sec(worker_.loop.now_us())});
    }
    if (!scratch_->tried.empty()) {
        return refuse(
            {502, "backend_unreachable", "every endpoint refused the connection", {}, "api_error"});
    }
    return refuse({503,
                   "no_healthy_backend",
                   "no endpoint of this rule can take the request",
                   {},
                   "api_error",
                   service_->pool->retry_after_sec(worker_.loop.now_us())});
}

net::Task<Exchange::Attempt> Exchange::attempt(const route::Decision& decision) {
    const rules::Rule& rule = *service_->rule;
    const Leg::Sending sending{
        .decision = decision,
        .attempt = static_cast<std::uint32_t>(receipt_.legs.size() - legs_before_ + 1),
        .pieces = scratch_->pieces,
        .body_bytes = body_bytes_,
        .first_byte_ms = rule.timeouts.first_byte_ms};
    const Leg::End end = co_await leg_.run(sending);
    if (end != Leg::End::Head) {
        co_return lose(end);
    }
    status_ = leg_.status();
    first_byte_us_ = leg_.record().first_byte_us;
    const bool is_error = status_ >= 500 || status_ == 429;
    const Leg::End peeked = co_await peek(is_error);
    if (peeked != Leg::End::Head) {
        co_return lose(peeked);
    }
    if (is_error) {
        co_return judge(decision);
    }
    if (const std::string_view error = leading_error(first_part_); !error.empty()) {
        co_return judge_first_event(decision, error);
    }
    leg_.permit().answered();
    leg_.endpoint().note_answered();
    leg_.record().verdict = "relayed";
    co_return Attempt::Answered;
}

net::Task<Leg::End> Exchange::peek(bool is_error, bool may_pause) {
    const std::uint64_t gap_ms = service_->rule->timeouts.chunk_gap_ms;
    const bool is_held = !is_error && (gap_ms == 0 || gap_ms > kHeadHoldMs || may_pause);
    // An error is read before it is judged.
    const net::Wait patience = is_held ? wait_ms(kHeadHoldMs) : leg_.next_wait(gap_ms);
    auto part = co_await leg_.upstream().read_body(patience);
    while (!is_held && !part && leg_.is_pause(part.error())) {
        part = co_await leg_.upstream().read_body(leg_.same_wait());
    }
    if (part) {
        first_part_ = part->bytes;
        has_first_part_ = true;
        const Status rest = co_await read_rest_of_error(is_error);
        if (!rest) {
            co_return leg_.lose(rest.error());
        }
    } else if (!is_held || part.error().code != Code::Timeout || is_overdue()) {
        co_return leg_.lose(part.error());
    }
    co_return Leg::End::Head;
}

// An error may come in pieces, also the one a stream begins with; half of it says nothing. One that
// is not whole in time is judged by what is there.
net::Task<Status> Exchange::read_rest_of_error(bool is_error) {
    const net::Wait wait = wait_ms(kErrorRestMs);
    std::string& text = scratch_->first_part;
    text.clear();
    while (!leg_.upstream().is_complete() && first_part_.size() < kJudgedBytes &&
           (is_error || may_become_error(first_part_))) {
        if (text.empty()) {
            text = first_part_;  // the leg keeps it only until it is read on
            first_part_ = text;
        }
        const auto part = co_await leg_.upstream().read_body(wait);
        if (!part) {
            const bool is_slow = part.error().code == Code::Timeout && !is_overdue();
            co_return is_slow ? Status{} : Status(part.error());
        }
        text += part->bytes;
        first_part_ = text;
    }
    co_return Status{};
}

void Exchange::pass_over_removed() {
    for (std::size_t i = 0; i < service_->pool->size(); ++i) {
        const bool is_tried =
            std::find(scratch_->tried.begin(), scratch_->tried.end(), i) != scratch_->tried.end();
        if (!is_tried && !scene_.is_still_in(i)) {
            scratch_->tried.push_back(i);
        }
    }
}

}  // namespace sluice::flow
