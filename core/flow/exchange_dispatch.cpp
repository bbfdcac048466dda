// The middle of an exchange: choosing endpoints and trying them, until one answers.
#include <algorithm>

#include "core/flow/exchange.hpp"
#include "core/flow/upstream_head.hpp"

namespace sluice::flow {
namespace {

// How long an endpoint that refused a connection is passed over while others are left.
constexpr std::uint64_t kRefusedUs = 1'000'000;

bool is_client_gone(const Error& error) noexcept {
    return error.code == Code::Cancelled;
}

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
            if (scratch_->tried.empty()) {
                co_return refuse({503,
                                  "no_healthy_backend",
                                  "no endpoint of this rule can take the request",
                                  {},
                                  "api_error"});
            }
            co_return refuse({502,
                              "backend_unreachable",
                              "every endpoint refused the connection",
                              {},
                              "api_error"});
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
        lease_.release();
        upstream_.close();
        scratch_->tried.push_back(decision.index);
        if (receipt_.legs.size() >= max_attempts) {
            co_return refuse({502,
                              "backend_unreachable",
                              "every endpoint refused the connection",
                              {},
                              "api_error"});
        }
    }
}

net::Task<Exchange::Attempt> Exchange::attempt(const route::Decision& decision) {
    const rules::Rule& rule = *service_->rule;
    fleet::Endpoint& endpoint = *(*service_->pool)[decision.index].endpoint;
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
            if (is_client_gone(connected.error())) {
                client_left();
                co_return Attempt::Over;
            }
            if (is_overdue()) {
                leg().verdict = "connect_timeout";
                refuse_timeout();
                co_return Attempt::Over;
            }
            endpoint.note_refused(worker_.loop.now_us() + kRefusedUs);
            leg().verdict = "connect_failed";
            co_return Attempt::Elsewhere;
        }
        upstream_ = std::move(*connected);
        upstream_.keep_alive_every(rule.keepalive_sec);
        leg().connect_us = since_start_us();
        const Status head = co_await send_and_read_head(decision);
        if (head) {
            break;
        }
        if (is_client_gone(head.error())) {
            client_left();
            co_return Attempt::Over;
        }
        if (upstream_.not_accepted() && rule.retry.not_accepted && !is_replayed) {
            // The engine closed the kept connection before our request reached it: it cannot have
            // begun, so the same endpoint gets it once more.
            const route::ServicePtr now = service_of(*worker_.directory, service_->rule->number);
            is_replayed = true;
            leg().verdict = "stale_connection";
            upstream_.close();
            if (!is_still_in(now.get(), decision.index)) {
                co_return Attempt::Elsewhere;
            }
            connected = co_await worker_.upstreams.acquire_fresh(address,
                                                                 wait_ms(rule.timeouts.connect_ms));
            continue;
        }
        if (head.error().code == Code::Timeout) {
            leg().verdict = "first_byte_timeout";
            refuse_timeout();
            co_return Attempt::Over;
        }
        leg().verdict = "died";
        if (rule.retry.after_dispatch && head.error().code != Code::Protocol) {
            co_return Attempt::Elsewhere;
        }
        refuse({502,
                "upstream_failed",
                "the endpoint failed before it answered: " + head.error().what,
                {},
                "api_error"});
        co_return Attempt::Over;
    }
    endpoint.note_connected();
    if (status_ >= 500 || status_ == 429) {
        const Attempt judged = co_await judge(decision);
        co_return judged;
    }
    leg().verdict = "relayed";
    co_return Attempt::Answered;
}

net::Task<Status> Exchange::send_and_read_head(const route::Decision& decision) {
    const fleet::Endpoint& endpoint = *(*service_->pool)[decision.index].endpoint;
    const http::RequestHead& client_head = client_.head();
    const bool says_length = body_bytes_ > 0 || client_head.method == "POST" ||
                             client_head.method == "PUT" || client_head.method == "PATCH";
    const auto key = service_->key ? service_->key->authorization() : nullptr;
    write_upstream_head(
        {.client = client_head,
         .connection = client_.connection_value(),
         .host = endpoint.name(),
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
    auto head = co_await upstream_.read_head(wait_ms(service_->rule->timeouts.first_byte_ms));
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

// An answer that is not 2xx is looked at before it is relayed: an engine that drains, or whose core
// is gone, says so with a 500, and another endpoint can still take the request.
net::Task<Exchange::Attempt> Exchange::judge(const route::Decision& decision) {
    if (upstream_.framing().kind != http::BodyKind::None) {
        auto part = co_await upstream_.read_body(wait_ms(service_->rule->timeouts.chunk_gap_ms));
        if (!part) {
            if (is_client_gone(part.error())) {
                client_left();
                co_return Attempt::Over;
            }
            leg().verdict = "died";
            refuse({502, "upstream_failed", "the endpoint's answer broke off", {}, "api_error"});
            co_return Attempt::Over;
        }
        scratch_->first_part.assign(part->bytes);
        has_first_part_ = true;
    }
    std::vector<sluice_pair> headers;
    for (const http::Header& h : reply_.headers()) {
        headers.push_back({{h.name.data(), h.name.size()}, {h.value.data(), h.value.size()}});
    }
    sluice_request request{};
    request.size = sizeof request;
    request.flags = static_cast<std::uint32_t>(facts_.is_stream ? SLUICE_REQ_STREAM : 0);
    request.request_id = {receipt_.id.data(), receipt_.id.size()};
    request.path = {facts_.path.data(), facts_.path.size()};
    request.model = {served_model_.data(), served_model_.size()};
    request.client = {client_ip_.data(), client_ip_.size()};
    request.attempt = leg().attempt - 1;
    request.body = {reinterpret_cast<const std::uint8_t*>(body_.data()), body_.size()};
    const route::Judgement judgement =
        service_->engine->judge(decision.index, request, status_, headers, scratch_->first_part);
    const bool may_go_on =
        judgement == route::Judgement::Elsewhere || judgement == route::Judgement::Busy;
    if (judgement == route::Judgement::Elsewhere) {
        (*service_->pool)[decision.index].endpoint->note_refused(worker_.loop.now_us() +
                                                                 kRefusedUs);
    }
    if (may_go_on && has_alternative(decision.index, judgement)) {
        leg().verdict = judgement == route::Judgement::Busy ? "busy" : "draining";
        scratch_->first_part.clear();
        has_first_part_ = false;
        co_return Attempt::Elsewhere;
    }
    leg().verdict = "relayed";
    co_return Attempt::Answered;
}

bool Exchange::refuse_timeout() {
    if (is_capped()) {
        return refuse({504,
                       "max_stream_duration",
                       "the rule's limit for one response has passed",
                       {},
                       "api_error"});
    }
    return refuse(
        {504, "upstream_timeout", "the endpoint did not answer in time", {}, "api_error"});
}

bool Exchange::has_alternative(std::size_t chosen, route::Judgement judgement) const {
    // A primary that is full is not out: its backup stays one.
    const bool spares_backups =
        judgement == route::Judgement::Busy && !(*service_->pool)[chosen].spec.backup;
    if (receipt_.legs.size() > service_->rule->retry.connect) {
        return false;
    }
    const route::ServicePtr now = service_of(*worker_.directory, service_->rule->number);
    for (std::size_t i = 0; i < service_->pool->size(); ++i) {
        const bool is_tried =
            std::find(scratch_->tried.begin(), scratch_->tried.end(), i) != scratch_->tried.end();
        const bool is_spared = spares_backups && (*service_->pool)[i].spec.backup;
        if (i != chosen && !is_tried && !is_spared && is_still_in(now.get(), i) &&
            service_->pool->excluded(i, served_model_) == fleet::Excluded::No) {
            return true;
        }
    }
    return false;
}

}  // namespace sluice::flow
