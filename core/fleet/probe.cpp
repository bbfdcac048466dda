#include "core/fleet/probe.hpp"

#include <pthread.h>

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"

namespace sluice::fleet {
namespace {

constexpr std::chrono::seconds kMaxTry{5};

std::string name_of(const rules::ProbeSpec& spec) {
    const auto address = net::Address::parse_ip(spec.address, spec.port);
    return address && rules::has_port(spec.kind) ? address->format() : spec.address;
}

// What the endpoint is asked, without how often and what is made of the answer.
rules::ProbeSpec question_of(const rules::ProbeSpec& spec) {
    rules::ProbeSpec out = spec;
    out.codes.clear();
    out.reply.clear();
    out.interval_sec = 0;
    out.retries = 0;
    return out;
}

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

class Prober::Turn {
public:
    Turn() = default;
    ~Turn() { give_back(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void take(Prober& prober, const rules::ProbeSpec& question) {
        prober.asking_.insert(question);
        prober_ = &prober;
        question_ = question;
    }
    void give_back() noexcept {
        if (prober_ != nullptr) {
            prober_->asking_.erase(question_);
            prober_->turn_free_->set();
            prober_ = nullptr;
        }
    }

private:
    Prober* prober_ = nullptr;
    rules::ProbeSpec question_;
};

class Prober::Running {
public:
    Running(Prober& prober, std::uint64_t id, net::Cancel& ended) : prober_(prober), id_(id) {
        prober.endings_.emplace(id, &ended);
    }
    ~Running() { prober_.endings_.erase(id_); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

private:
    Prober& prober_;
    const std::uint64_t id_;
};

Prober::Prober() = default;

Prober::~Prober() {
    stop();
}

Status Prober::start() {
    auto tls = net::TlsClient::create();
    if (!tls) {
        return std::move(tls).error();
    }
    auto loop = net::Loop::create();
    if (!loop) {
        return std::move(loop).error();
    }
    tls_ = std::move(*tls);
    loop_ = std::move(*loop);
    turn_free_ = std::make_unique<net::Event>(*loop_);
    thread_ = std::jthread([this] { loop_->run(); });
    ::pthread_setname_np(thread_.native_handle(), "sluice-probe");
    return {};
}

void Prober::stop() {
    if (thread_.joinable()) {
        loop_->stop();
        thread_.join();
    }
    loop_.reset();  // ends the probes, which still know the event
    turn_free_.reset();
}

ProbeStatePtr Prober::probe(const rules::ProbeSpec& spec, const ProbeState* before) {
    if (spec.kind == rules::ProbeSpec::Kind::None ||
        !net::Address::parse_ip(spec.address, spec.port)) {
        return nullptr;  // validation has refused such an address
    }
    const std::lock_guard lock(mu_);
    std::erase_if(probes_, [](const auto& entry) { return entry.second.expired(); });
    if (auto state = probes_[spec].lock()) {
        return state;
    }
    auto state = std::make_shared<ProbeState>(spec, next_id_++);
    if (before != nullptr && !before->is_up()) {
        // An edit of the interval brings no dead endpoint back.
        state->is_up_.store(false, std::memory_order_relaxed);
        state->reason_.set(before->reason_.get());
    }
    probes_[spec] = state;
    loop_->post([this, id = state->id_, spec, weak = std::weak_ptr(state)] {
        loop_->spawn(run(id, spec, weak));
    });
    return state;
}

void Prober::retain(const std::set<ProbeStatePtr>& in_force) {
    std::vector<std::uint64_t> over;
    {
        const std::lock_guard lock(mu_);
        std::erase_if(probes_, [&](const auto& entry) {
            const ProbeStatePtr state = entry.second.lock();
            if (state && in_force.contains(state)) {
                return false;
            }
            if (state) {
                state->is_over_.store(true, std::memory_order_relaxed);
                over.push_back(state->id_);
            }
            return true;
        });
    }
    if (over.empty()) {
        return;
    }
    loop_->post([this, over = std::move(over)] {
        for (const std::uint64_t id : over) {
            if (const auto it = endings_.find(id); it != endings_.end()) {
                it->second->fire();
            }
        }
    });
}

bool Prober::is_wanted(const std::weak_ptr<ProbeState>& weak) noexcept {
    const ProbeStatePtr state = weak.lock();
    return state && !state->is_over_.load(std::memory_order_relaxed);
}

net::Task<Status> Prober::take_turn(const rules::ProbeSpec& question, net::Cancel& ended,
                                    Turn& out) {
    while (asking_.size() >= kMaxTries || asking_.contains(question)) {
        turn_free_->reset();
        const net::Wait wait{.cancel = &ended};
        Status woken = co_await turn_free_->wait(wait);
        if (!woken) {
            co_return woken;
        }
    }
    out.take(*this, question);
    co_return Status{};
}

net::Task<void> Prober::run(std::uint64_t id, rules::ProbeSpec spec,
                            std::weak_ptr<ProbeState> weak) {
    net::Cancel ended;
    const Running running(*this, id, ended);
    const rules::ProbeSpec question = question_of(spec);
    const std::chrono::seconds interval(spec.interval_sec);
    while (is_wanted(weak)) {
        Turn turn;
        const Status has_turn = co_await take_turn(question, ended, turn);
        if (!has_turn) {
            co_return;
        }
        const std::uint64_t next = loop_->after(interval);
        const std::uint64_t begun = now_us();
        const net::Wait wait{loop_->after(std::min(kMaxTry, interval)), &ended};
        const auto result = co_await try_probe(*loop_, *tls_, spec, wait);
        turn.give_back();
        if (ended.fired()) {
            co_return;  // its result is of a probe that nobody wants
        }
        if (const auto state = weak.lock()) {
            if (result && *result == ProbeAnswer::Came) {
                state->measured(now_us() - begun);
            }
            settle(*state, result);
        }
        // The end of the probe ends the rest as well.
        (void)co_await loop_->sleep_until(next, &ended);
    }
}

void Prober::settle(ProbeState& state, const Result<ProbeAnswer>& result) {
    const std::string endpoint = name_of(state.spec_);
    if (result) {
        state.failures_ = 0;
        state.reason_.set(std::make_shared<const std::string>());
        if (!state.is_up()) {
            state.turn(true);
            log::info("endpoint is up again", {{"endpoint", endpoint}});
        }
        return;
    }
    const std::string reason = "probe: " + result.error().what;
    const bool is_news = state.reason() != reason;
    state.reason_.set(std::make_shared<const std::string>(reason));
    if (result.error().code == Code::Unsupported) {
        if (is_news) {
            log::warn("endpoint cannot be probed",
                      {{"endpoint", endpoint}, {"reason", result.error().what}});
        }
        return;
    }
    state.failures_ += 1;
    if (state.is_up() && state.failures_ >= std::max(1U, state.spec_.retries)) {
        state.turn(false);
        log::warn("endpoint is down", {{"endpoint", endpoint}, {"reason", result.error().what}});
    }
}

}  // namespace sluice::fleet
