#include "core/fleet/probe.hpp"

#include <pthread.h>

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/http/upstream.hpp"

namespace sluice::fleet {
namespace {

constexpr std::chrono::seconds kMaxTry{5};
// Of a health reply's body; what is beyond it does not matter.
constexpr std::uint64_t kMaxBodyBytes = 64 * 1024;

}  // namespace

ProbeDelays ProbeState::delays() const noexcept {
    ProbeDelays out;
    out.tries = tries_.load(std::memory_order_relaxed);
    if (out.tries > 0) {
        out.min_us = min_us_.load(std::memory_order_relaxed);
        out.avg_us = sum_us_.load(std::memory_order_relaxed) / out.tries;
        out.max_us = max_us_.load(std::memory_order_relaxed);
    }
    return out;
}

void ProbeState::measured(std::uint64_t us) noexcept {
    const std::uint64_t tries = tries_.load(std::memory_order_relaxed);
    const std::uint64_t least = min_us_.load(std::memory_order_relaxed);
    min_us_.store(tries == 0 ? us : std::min(least, us), std::memory_order_relaxed);
    max_us_.store(std::max(max_us_.load(std::memory_order_relaxed), us), std::memory_order_relaxed);
    sum_us_.fetch_add(us, std::memory_order_relaxed);
    tries_.store(tries + 1, std::memory_order_relaxed);
}

void ProbeState::turn(bool is_up) noexcept {
    is_up_.store(is_up, std::memory_order_relaxed);
    changed_us_.store(wall_us(), std::memory_order_relaxed);
}

Prober::Prober() = default;

Prober::~Prober() {
    stop();
}

Status Prober::start() {
    auto loop = net::Loop::create();
    if (!loop) {
        return std::move(loop).error();
    }
    loop_ = std::move(*loop);
    thread_ = std::jthread([this] { loop_->run(); });
    ::pthread_setname_np(thread_.native_handle(), "sluice-probe");
    return {};
}

void Prober::stop() {
    if (thread_.joinable()) {
        loop_->stop();
        thread_.join();
    }
    loop_.reset();
}

ProbeStatePtr Prober::probe(const rules::EndpointSpec& endpoint, const rules::ProbeSpec& spec,
                            const ProbeState* before) {
    if (spec.kind == rules::ProbeSpec::Kind::None) {
        return nullptr;
    }
    const std::uint16_t port = spec.port != 0 ? spec.port : endpoint.port;
    auto address = net::Address::parse_ip(endpoint.ip, port);
    if (!address) {
        return nullptr;  // the rule's validation has refused such an address
    }
    const Key key{endpoint.ip,       port,        static_cast<int>(spec.kind), spec.path,
                  spec.interval_sec, spec.retries};
    const std::lock_guard lock(mu_);
    std::erase_if(probes_, [](const auto& entry) { return entry.second.expired(); });
    if (auto state = probes_[key].lock()) {
        return state;
    }
    auto state = std::make_shared<ProbeState>(ProbeTarget{endpoint.ip, port, spec});
    if (before != nullptr && !before->is_up()) {
        // An edit of the interval brings no dead endpoint back.
        state->is_up_.store(false, std::memory_order_relaxed);
        state->reason_.set(before->reason_.get());
    }
    probes_[key] = state;
    Target target{*address, address->format(), spec};
    loop_->post([this, target = std::move(target), weak = std::weak_ptr(state)] {
        loop_->spawn(run(target, weak));
    });
    return state;
}

void Prober::retain(const std::set<ProbeStatePtr>& in_force) {
    const std::lock_guard lock(mu_);
    std::erase_if(probes_, [&](const auto& entry) {
        const ProbeStatePtr state = entry.second.lock();
        if (state && in_force.contains(state)) {
            return false;
        }
        if (state) {
            state->is_over_.store(true, std::memory_order_relaxed);
        }
        return true;
    });
}

bool Prober::is_wanted(const std::weak_ptr<ProbeState>& weak) noexcept {
    const ProbeStatePtr state = weak.lock();
    return state && !state->is_over_.load(std::memory_order_relaxed);
}

net::Task<void> Prober::run(Target target, std::weak_ptr<ProbeState> weak) {
    while (is_wanted(weak)) {
        const std::uint64_t next = loop_->after(std::chrono::seconds(target.spec.interval_sec));
        const std::uint64_t begun = now_us();
        const Status result = co_await try_once(target);
        if (const auto state = weak.lock()) {
            if (result) {
                state->measured(now_us() - begun);
            }
            settle(*state, target, result);
        }
        // The sleep has no canceller: it always reaches its deadline.
        (void)co_await loop_->sleep_until(next);
    }
}

net::Task<Status> Prober::try_once(const Target& target) {
    const auto limit =
        std::min<std::chrono::seconds>(kMaxTry, std::chrono::seconds(target.spec.interval_sec));
    const net::Wait wait{loop_->after(limit), nullptr};
    http::UpstreamPool pool(*loop_);
    auto up = co_await pool.acquire_fresh(target.address, wait);
    if (!up) {
        co_return std::move(up).error().at("connect");
    }
    if (target.spec.kind == rules::ProbeSpec::Kind::Tcp) {
        co_return Status{};
    }
    const std::string head = "GET " + target.spec.path + " HTTP/1.1\r\nHost: " + target.host +
                             "\r\nUser-Agent: sluice-probe\r\nConnection: close\r\n\r\n";
    Status sent = co_await up->send(head, std::string_view{}, wait);
    if (!sent) {
        co_return std::move(sent).error().at("send");
    }
    auto answer = co_await up->read_head(wait);
    if (!answer) {
        co_return std::move(answer).error().at("answer");
    }
    if (answer->status != 200) {
        co_return Error{Code::Unavailable, "status " + std::to_string(answer->status)};
    }
    // A healthy head with a body that breaks off is not healthy.
    while (up->bytes_received() < kMaxBodyBytes && !up->is_complete()) {
        auto part = co_await up->read_body(wait);
        if (!part) {
            co_return std::move(part).error().at("body");
        }
    }
    co_return Status{};
}

void Prober::settle(ProbeState& state, const Target& target, const Status& result) {
    if (result) {
        state.failures_ = 0;
        if (!state.is_up()) {
            state.reason_.set(std::make_shared<const std::string>());
            state.turn(true);
            log::info("endpoint is up again", {{"endpoint", target.host}});
        }
        return;
    }
    state.failures_ += 1;
    state.reason_.set(std::make_shared<const std::string>("probe: " + result.error().what));
    if (state.is_up() && state.failures_ >= std::max(1U, target.spec.retries)) {
        state.turn(false);
        log::warn("endpoint is down", {{"endpoint", target.host}, {"reason", result.error().what}});
    }
}

}  // namespace sluice::fleet
