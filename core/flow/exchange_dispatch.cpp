// The middle of an exchange: choosing endpoints and trying them, until one answers.
#include <algorithm>

#include "core/flow/exchange.hpp"
#include "core/flow/upstream_head.hpp"

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
        if (!receipt_.legs.empty()) {
            pass_over_removed();
        }
        route::Question question{.service = *service_,
                                 .facts = facts_,
                                 .served_model = served_model_,
                                 .prompt = has_prompt_ ? &scratch_->prompt : nullptr,
                                 .tried = scratch_->tried,
                                 .request_id = receipt_.id,
                                 .client = client_ip_,
                                 .is_dry_run = false,
                                 .now_us = worker_.loop.now_us()};
        const route::Decision decision = worker_.ladder.choose(question, receipt_);
        if (!decision.is_found) {
            co_return refuse_unrouted();
        }
        if (!take_permit((*service_->pool)[decision.index])) {
            continue;  // others took the last trials since the choice: it is made anew
        }
        if (decision.block_tokens != 0) {
            receipt_.predicted_cached =
                std::int64_t{decision.matched_blocks} * std::int64_t{decision.block_tokens};
        }
        lease_ = fleet::Lease((*service_->pool)[decision.index].endpoint);
        chosen_ = decision.index;
        if (decision.index < service_->totals.endpoints.size()) {
            service_->totals.endpoints[decision.index]->requests.fetch_add(
                1, std::memory_order_relaxed);
        }
        const Attempt outcome = co_await attempt(decision);
        switch (outcome) {
            case Attempt::Answered:
                co_return true;
            case Attempt::Over:
                co_return false;
            case Attempt::Elsewhere:
                break;
        }
        permit_.release();
        lease_.release();
        upstream_.close();
        first_part_ = {};
        has_first_part_ = is_gone_ = false;
        scratch_->tried.push_back(decision.index);
        if (receipt_.legs.size() >= max_attempts) {
            co_return refuse_unrouted();
        }
    }
}

bool Exchange::take_permit(const fleet::Member& member) {
    if (!member.breaker) {
        return true;
    }
    permit_ = member.breaker->enter(worker_.loop.now_us());
    return permit_.is_held();
}

bool Exchange::refuse_unrouted() {
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
    route::LegRecord record;
    record.attempt = static_cast<std::uint32_t>(receipt_.legs.size() + 1);
    record.endpoint = service_->names->endpoints[decision.index];
    record.rank = decision.rank;
    record.tier = decision.tier;
    record.matched_blocks = decision.matched_blocks;
    receipt_.legs.push_back(record);
    const net::Address& address = service_->addresses[decision.index];

    auto connected = co_await worker_.upstreams.acquire(address, wait_ms(rule.timeouts.connect_ms));
    bool is_replayed = false;
    while (true) {
        if (!connected) {
            co_return lose_connect(connected.error());
        }
        upstream_ = std::move(*connected);
        upstream_.keep_alive_every(rule.keepalive_sec);
        leg().connect_us = since_start_us();
        const Status head = co_await send_and_read_head();
        if (head) {
            break;
        }
        if (!upstream_.not_accepted() || !rule.retry.not_accepted || is_replayed) {
            co_return lose(head.error());
        }
        // The engine closed the kept connection before our request reached it: it cannot have
        // begun, so the same endpoint gets it once more.
        const route::ServicePtr now = service_of(*worker_.directory, service_->rule->number);
        is_replayed = true;
        leg().verdict = "stale_connection";
        upstream_.close();
        if (!is_still_in(now.get(), decision.index)) {
            co_return Attempt::Elsewhere;
        }
        connected =
            co_await worker_.upstreams.acquire_fresh(address, wait_ms(rule.timeouts.connect_ms));
    }
    const bool is_error = status_ >= 500 || status_ == 429;
    const std::uint64_t gap_ms = rule.timeouts.chunk_gap_ms;
    const bool is_held = !is_error && (gap_ms == 0 || gap_ms > kHeadHoldMs);
    // An error is read before it is judged.
    auto part = co_await upstream_.read_body(is_held ? wait_ms(kHeadHoldMs) : next_wait(gap_ms));
    while (!is_held && !part && is_pause(part.error())) {
        part = co_await upstream_.read_body(same_wait());
    }
    if (part) {
        first_part_ = part->bytes;
        has_first_part_ = true;
        const Status rest = co_await read_rest_of_error(is_error);
        if (!rest) {
            co_return lose(rest.error());
        }
    } else if (!is_held || part.error().code != Code::Timeout || is_overdue()) {
        co_return lose(part.error());
    }
    if (is_error) {
        co_return judge(decision);
    }
    if (const std::string_view error = leading_error(first_part_); !error.empty()) {
        co_return judge_first_event(decision, error);
    }
    permit_.answered();
    endpoint().note_answered();
    leg().verdict = "relayed";
    co_return Attempt::Answered;
}

// An error may come in pieces, also the one a stream begins with; half of it says nothing. One that
// is not whole in time is judged by what is there.
net::Task<Status> Exchange::read_rest_of_error(bool is_error) {
    const net::Wait wait = wait_ms(kErrorRestMs);
    std::string& text = scratch_->first_part;
    text.clear();
    while (!upstream_.is_complete() && first_part_.size() < kJudgedBytes &&
           (is_error || may_become_error(first_part_))) {
        if (text.empty()) {
            text = first_part_;  // upstream_ keeps it only until it is read on
            first_part_ = text;
        }
        const auto part = co_await upstream_.read_body(wait);
        if (!part) {
            const bool is_slow = part.error().code == Code::Timeout && !is_overdue();
            co_return is_slow ? Status{} : Status(part.error());
        }
        text += part->bytes;
        first_part_ = text;
    }
    co_return Status{};
}

net::Task<Status> Exchange::send_and_read_head() {
    const http::RequestHead& client_head = client_.head();
    const bool says_length = body_bytes_ > 0 || client_head.method == "POST" ||
                             client_head.method == "PUT" || client_head.method == "PATCH";
    const auto key = service_->key ? service_->key->authorization() : nullptr;
    write_upstream_head(
        {.client = client_head,
         .connection = client_.connection_value(),
         .host = endpoint().name(),
         .request_id = receipt_.id,
         .client_ip = client_ip_,
         .authorization = key ? std::string_view(*key) : std::string_view(),
         .attempt = leg().attempt,
         .body_bytes = says_length ? std::optional<std::uint64_t>(body_bytes_) : std::nullopt},
        scratch_->upstream_head);
    // An engine that takes no more of the body for that long is as silent as one that sends
    // nothing.
    const net::Wait patience = wait_ms(service_->rule->timeouts.chunk_gap_ms);
    const Status sent =
        co_await upstream_.send(scratch_->upstream_head, scratch_->pieces, patience);
    if (!sent) {
        co_return sent;
    }
    auto head = co_await upstream_.read_head(next_wait(service_->rule->timeouts.first_byte_ms));
    while (!head && is_pause(head.error())) {
        head = co_await upstream_.read_head(same_wait());
    }
    if (!head) {
        co_return std::move(head).error();
    }
    reply_.assign(*head, upstream_.connection_value(), upstream_.framing());
    status_ = head->status;
    leg().status = static_cast<std::uint16_t>(head->status);
    leg().first_byte_us = since_start_us();
    first_byte_us_ = since_start_us();
    co_return Status{};
}

// The request goes on with the rule as it found it, but is not sent to what an edit has taken out
// of the rule since, or has begun to drain.
bool Exchange::is_still_in(const route::Service* now, std::size_t index) const {
    if (now == service_.get()) {
        return true;
    }
    if (now == nullptr) {
        return false;
    }
    const std::uint64_t id = (*service_->pool)[index].endpoint->id();
    const auto& members = now->pool->members();
    return std::any_of(members.begin(), members.end(), [id](const fleet::Member& member) {
        return member.endpoint->id() == id && member.spec.weight != 0;
    });
}

void Exchange::pass_over_removed() {
    const route::ServicePtr now = service_of(*worker_.directory, service_->rule->number);
    for (std::size_t i = 0; i < service_->pool->size(); ++i) {
        const bool is_tried =
            std::find(scratch_->tried.begin(), scratch_->tried.end(), i) != scratch_->tried.end();
        if (!is_tried && !is_still_in(now.get(), i)) {
            scratch_->tried.push_back(i);
        }
    }
}

}  // namespace sluice::flow
