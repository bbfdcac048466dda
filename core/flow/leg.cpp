#include "core/flow/leg.hpp"

#include <algorithm>

#include "core/flow/upstream_head.hpp"

namespace sluice::flow {

std::uint64_t Scene::since_start_us() const noexcept {
    return now_us() - std::min(now_us(), client.started_us());
}

net::Wait Scene::wait_ms(std::uint64_t ms) const noexcept {
    const std::uint64_t own = worker.loop.after(std::chrono::milliseconds(ms));
    return {std::min(own, deadline_us), &halt};
}

bool Scene::is_still_in(std::size_t index) const {
    const route::ServicePtr now = service_of(*worker.directory, service->rule->number);
    if (now.get() == service) {
        return true;
    }
    if (!now) {
        return false;
    }
    const fleet::Member& wanted = (*service->pool)[index];
    const auto& members = now->pool->members();
    return std::any_of(members.begin(), members.end(), [&](const fleet::Member& member) {
        return member.endpoint->id() == wanted.endpoint->id() && member.spec.weight != 0 &&
               member.spec.role == wanted.spec.role;
    });
}

bool Leg::enter(std::size_t index) {
    close();
    has_run_ = is_sent_ = false;
    const fleet::Member& member = (*scene_.service->pool)[index];
    if (member.breaker) {
        permit_ = member.breaker->enter(scene_.now_us());
        if (!permit_.is_held()) {
            return false;
        }
    }
    index_ = index;
    lease_ = fleet::Lease(member.endpoint);
    if (index < scene_.service->totals.endpoints.size()) {
        scene_.service->totals.endpoints[index]->requests.fetch_add(1, std::memory_order_relaxed);
    }
    return true;
}

net::Task<Leg::End> Leg::run(const Sending& sending) {
    const rules::Rule& rule = *scene_.service->rule;
    has_run_ = true;
    route::LegRecord record;
    record.kind = sending.kind;
    record.attempt = sending.attempt;
    record.endpoint = scene_.service->names->endpoints[index_];
    record.rank = sending.decision.rank;
    record.tier = sending.decision.tier;
    record.matched_blocks = sending.decision.matched_blocks;
    record_ = scene_.receipt.legs.size();
    scene_.receipt.legs.push_back(record);
    const net::Address& address = scene_.service->addresses[index_];
    const net::Wait patience = wait_to_send(sending, rule.timeouts.connect_ms);

    auto connected =
        co_await scene_.worker.upstreams.acquire(address, patience, sending.most_idle_us);
    bool is_replayed = false;
    while (true) {
        if (!connected) {
            co_return lose_connect(connected.error(), sending);
        }
        upstream_ = std::move(*connected);
        upstream_.keep_alive_every(rule.keepalive_sec);
        this->record().connect_us = scene_.since_start_us();
        // It may have been long.
        const bool is_lost = sending.carried != nullptr && !sending.carried->is_held();
        if (is_lost || scene_.now_us() >= sending.send_by_us) {
            co_return outdated();
        }
        is_sent_ = false;
        const Status head = co_await exchange(sending);
        if (head) {
            co_return End::Head;
        }
        if (!is_sent_ && head.error().code == Code::Timeout && !scene_.is_overdue() &&
            scene_.now_us() >= sending.send_by_us) {
            co_return outdated();
        }
        if (!upstream_.not_accepted() || !rule.retry.not_accepted || is_replayed) {
            co_return lose(head.error());
        }
        this->record().verdict = "stale_connection";
        if (sending.is_once) {
            close();
            co_return End::Stale;
        }
        // The engine closed the kept connection before our request reached it: it cannot have
        // begun, so the same endpoint gets it once more.
        is_replayed = true;
        upstream_.close();
        if (!scene_.is_still_in(index_)) {
            co_return End::TakenOut;
        }
        const net::Wait again = wait_to_send(sending, rule.timeouts.connect_ms);
        connected = co_await scene_.worker.upstreams.acquire_fresh(address, again);
    }
}

net::Task<Status> Leg::exchange(const Sending& sending) {
    const http::RequestHead& client_head = scene_.client.head();
    const bool says_length = sending.body_bytes > 0 || client_head.method == "POST" ||
                             client_head.method == "PUT" || client_head.method == "PATCH";
    const auto key = scene_.service->key ? scene_.service->key->authorization() : nullptr;
    write_upstream_head(
        {.client = client_head,
         .connection = scene_.client.connection_value(),
         .host = endpoint().name(),
         .request_id = scene_.receipt.id,
         .client_ip = scene_.client_ip,
         .authorization = key ? std::string_view(*key) : std::string_view(),
         .attempt = sending.attempt,
         .body_bytes =
             says_length ? std::optional<std::uint64_t>(sending.body_bytes) : std::nullopt,
         .replaced = sending.headers},
        head_);
    // An engine that takes no more of the body for that long is as silent as one that sends
    // nothing.
    const net::Wait patience = wait_to_send(sending, scene_.service->rule->timeouts.chunk_gap_ms);
    const Status sent = co_await upstream_.send(head_, sending.pieces, patience);
    if (!sent) {
        co_return sent;
    }
    is_sent_ = true;
    auto head = co_await upstream_.read_head(next_wait(sending.first_byte_ms));
    while (!head && is_pause(head.error())) {
        head = co_await upstream_.read_head(same_wait());
    }
    if (!head) {
        co_return std::move(head).error();
    }
    reply_.assign(*head, upstream_.connection_value(), upstream_.framing());
    record().status = static_cast<std::uint16_t>(head->status);
    record().first_byte_us = scene_.since_start_us();
    co_return Status{};
}

net::Wait Leg::next_wait(std::uint64_t ms) noexcept {
    silence_.begin(scene_.now_us(), scene_.wait_ms(ms).deadline_us);
    return same_wait();
}

bool Leg::is_pause(const Error& error) {
    const std::uint64_t now = scene_.now_us();
    if (error.code != Code::Timeout || now < silence_.deadline_us() || silence_.is_over(now)) {
        return false;
    }
    is_gone_ = silence_.is_gone(scene_.worker.loop, scene_.service->addresses[index_],
                                (*scene_.service->pool)[index_].endpoint);
    return !is_gone_;
}

net::Wait Leg::wait_to_send(const Sending& sending, std::uint64_t ms) const noexcept {
    net::Wait wait = scene_.wait_ms(ms);
    wait.deadline_us = std::min(wait.deadline_us, sending.send_by_us);
    return wait;
}

// An engine begins with nothing that is not whole: closing the connection is enough.
Leg::End Leg::outdated() {
    record().verdict = "outdated";
    close();
    return End::Outdated;
}

Leg::End Leg::lose_connect(const Error& error, const Sending& sending) {
    if (error.code == Code::Cancelled) {
        return End::Interrupted;
    }
    if (error.code == Code::Timeout && !scene_.is_overdue() &&
        scene_.now_us() >= sending.send_by_us) {
        return outdated();
    }
    if (scene_.is_overdue()) {
        record().verdict = "connect_timeout";
        return End::Overdue;
    }
    const std::uint64_t now = scene_.now_us();
    endpoint().pass_over(fleet::Mark::Refused, now);
    permit_.failed("no connection", now);
    record().verdict = "connect_failed";
    return End::Unreached;
}

Leg::End Leg::lose(const Error& error) {
    if (error.code == Code::Cancelled) {
        return End::Interrupted;
    }
    failure_ = error.what;
    const std::uint64_t now = scene_.now_us();
    if (error.code == Code::Timeout && !is_gone_) {
        record().verdict = "first_byte_timeout";
        if (scene_.is_overdue()) {
            return End::Overdue;
        }
        permit_.failed("no answer in time", now);
        return End::Late;
    }
    permit_.failed(is_gone_ ? "its port refuses connections" : "it died before it answered", now);
    record().verdict = is_gone_ ? "gone" : "died";
    return is_gone_ ? End::Gone : error.code == Code::Protocol ? End::Garbled : End::Died;
}

void Leg::close() noexcept {
    upstream_.close();
    permit_.release();
    lease_.release();
    is_gone_ = false;
}

}  // namespace sluice::flow
