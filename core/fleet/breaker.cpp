#include "core/fleet/breaker.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/metrics.hpp"

namespace sluice::fleet {
namespace {

// Ten bits a count: the largest number a rule may ask for is 1000.
constexpr std::uint64_t kCountBits = 10;
constexpr std::uint32_t kMaxCount = (1U << kCountBits) - 1;
constexpr std::uint32_t kMaxEpoch = (1U << 22U) - 1;

std::uint32_t one_more(std::uint32_t count) noexcept {
    return std::min(count + 1, kMaxCount);
}

// Looked up once, so that both are there before the first flip.
struct Flips {
    metrics::Counter& all = metrics::registry().counter("loxilb_pd_cb_flips_total",
                                                        "Breakers that changed their state.");
    metrics::Counter& healed = metrics::registry().counter(
        "loxilb_pd_cb_proactive_heal_total", "Open breakers whose time was over: half open.");
};

Flips& flips() {
    static Flips both;
    return both;
}

}  // namespace

std::string_view to_string(BreakerState state) noexcept {
    switch (state) {
        case BreakerState::Closed:
            return "closed";
        case BreakerState::Open:
            return "open";
        case BreakerState::HalfOpen:
            return "half_open";
    }
    return "closed";
}

// -- Permit

void Permit::answered() noexcept {
    if (of_ == nullptr || has_answered_) {
        return;
    }
    has_answered_ = true;
    if (of_->end_rows(epoch_, false, epoch_)) {
        is_trial_ = false;
    }
}

void Permit::completed() noexcept {
    if (of_ != nullptr && has_answered_) {
        of_->end_rows(epoch_, true, epoch_);
        is_trial_ = false;
    }
    release();
}

void Permit::failed(std::string_view why, std::uint64_t now) noexcept {
    if (Breaker* const of = std::exchange(of_, nullptr)) {
        of->count_failure(epoch_, has_answered_, why, now);
    }
}

void Permit::origin_error(std::uint64_t now) noexcept {
    if (of_ == nullptr) {
        return;
    }
    if (of_->origin_5xx_.load(std::memory_order_relaxed) == 0) {
        answered();
        return;
    }
    std::exchange(of_, nullptr)->count_bad(epoch_, now);
}

void Permit::release() noexcept {
    Breaker* const of = std::exchange(of_, nullptr);
    if (of != nullptr && is_trial_) {
        of->give_back_trial(epoch_);
    }
}

// -- Breaker

Breaker::Breaker(std::string rule, std::string endpoint, const rules::BreakerSpec& spec)
    : rule_(std::move(rule)), endpoint_(std::move(endpoint)) {
    flips();
    configure(spec);
}

void Breaker::configure(const rules::BreakerSpec& spec) noexcept {
    open_ms_.store(spec.open_ms, std::memory_order_relaxed);
    failures_.store(spec.failures, std::memory_order_relaxed);
    half_open_trials_.store(spec.half_open_trials, std::memory_order_relaxed);
    origin_5xx_.store(spec.origin_5xx, std::memory_order_relaxed);
}

Breaker::View Breaker::unpack(std::uint64_t word) noexcept {
    const auto count = [word](std::uint64_t place) {
        return static_cast<std::uint32_t>(word >> (2 + place * kCountBits)) & kMaxCount;
    };
    View out;
    out.state = static_cast<BreakerState>(word & 3U);
    out.failures = count(0);
    out.cuts = count(1);
    out.bad = count(2);
    out.trials = count(3);
    out.epoch = static_cast<std::uint32_t>(word >> 42U);
    return out;
}

std::uint64_t Breaker::pack(const View& v) noexcept {
    const auto at = [](std::uint32_t count, std::uint64_t place) {
        return std::uint64_t{count} << (2 + place * kCountBits);
    };
    return static_cast<std::uint64_t>(v.state) | at(v.failures, 0) | at(v.cuts, 1) | at(v.bad, 2) |
           at(v.trials, 3) | (std::uint64_t{v.epoch} << 42U);
}

template <class Change>
bool Breaker::alter(Change change, View& before, View& after) noexcept {
    std::uint64_t word = word_.load(std::memory_order_acquire);
    do {
        before = after = unpack(word);
        if (!change(after)) {
            return false;
        }
    } while (!word_.compare_exchange_weak(word, pack(after), std::memory_order_acq_rel,
                                          std::memory_order_acquire));
    return true;
}

Breaker::View Breaker::turned(View view, BreakerState to) const noexcept {
    View out;
    out.state = to;
    out.epoch = (view.epoch + 1) & kMaxEpoch;
    return out;
}

// The time is there before the state is: whoever sees the state open sees it.
Breaker::View Breaker::opened(View view, std::uint64_t now) noexcept {
    opened_us_.store(now, std::memory_order_relaxed);
    return turned(view, BreakerState::Open);
}

void Breaker::say(const View& before, const View& after, std::string_view why) const noexcept {
    if (before.state == after.state) {
        return;
    }
    flips().all.add();
    const bool is_worse = after.state == BreakerState::Open;
    log::write(is_worse ? log::Level::Warn : log::Level::Info, "breaker flipped",
               {{"rule", rule_},
                {"endpoint", endpoint_},
                {"from", to_string(before.state)},
                {"to", to_string(after.state)},
                {"reason", why}});
}

bool Breaker::is_due(std::uint64_t now) const noexcept {
    return open_for_us(now) == 0;
}

std::uint64_t Breaker::open_for_us(std::uint64_t now) const noexcept {
    const std::uint64_t until = opened_us_.load(std::memory_order_relaxed) +
                                open_ms_.load(std::memory_order_relaxed) * 1000U;
    return until - std::min(until, now);
}

BreakerState Breaker::state(std::uint64_t now) const noexcept {
    const BreakerState state = unpack(word_.load(std::memory_order_acquire)).state;
    return state == BreakerState::Open && is_due(now) ? BreakerState::HalfOpen : state;
}

bool Breaker::admits(std::uint64_t now) const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    const View view = unpack(word);
    switch (view.state) {
        case BreakerState::Closed:
            return true;
        case BreakerState::Open:
            return is_due(now);
        case BreakerState::HalfOpen:
            return view.trials < half_open_trials_.load(std::memory_order_relaxed);
    }
    return true;
}

void Breaker::heal(std::uint64_t now) noexcept {
    View before;
    View after;
    const auto half_open = [&](View& view) {
        if (view.state != BreakerState::Open || !is_due(now)) {
            return false;
        }
        view = turned(view, BreakerState::HalfOpen);
        return true;
    };
    if (alter(half_open, before, after)) {
        flips().healed.add();
        say(before, after, "its time is over");
    }
}

Permit Breaker::enter(std::uint64_t now) noexcept {
    const View seen = unpack(word_.load(std::memory_order_acquire));
    if (seen.state == BreakerState::Closed) {
        return {*this, seen.epoch, false};
    }
    heal(now);
    View before;
    View after;
    const auto take = [&](View& view) {
        if (view.state == BreakerState::Open ||
            (view.state == BreakerState::HalfOpen &&
             view.trials >= half_open_trials_.load(std::memory_order_relaxed))) {
            return false;
        }
        view.trials += view.state == BreakerState::HalfOpen ? 1U : 0U;
        return true;
    };
    if (!alter(take, before, after)) {
        return {};
    }
    return {*this, after.epoch, after.state == BreakerState::HalfOpen};
}

// An answer began, or is whole. True when that closed the breaker; `now_in` is the epoch from then
// on.
bool Breaker::end_rows(std::uint32_t epoch, bool is_whole, std::uint32_t& now_in) noexcept {
    View before;
    View after;
    const auto end = [&](View& view) {
        if (view.epoch != epoch) {
            return false;
        }
        if (view.state == BreakerState::HalfOpen) {
            view = turned(view, BreakerState::Closed);
            return true;
        }
        const bool has_row = view.failures != 0 || view.bad != 0 || (is_whole && view.cuts != 0);
        view.failures = view.bad = 0;
        view.cuts = is_whole ? 0 : view.cuts;
        return has_row;
    };
    if (!alter(end, before, after) || before.state == after.state) {
        return false;
    }
    now_in = after.epoch;
    say(before, after, "a request was answered");
    return true;
}

void Breaker::count_failure(std::uint32_t epoch, bool has_answered, std::string_view why,
                            std::uint64_t now) noexcept {
    View before;
    View after;
    const auto count = [&](View& view) {
        if (view.epoch != epoch) {
            return false;
        }
        std::uint32_t& row = has_answered ? view.cuts : view.failures;
        row = one_more(row);
        const bool is_enough =
            view.failures + view.cuts >= failures_.load(std::memory_order_relaxed);
        if (view.state == BreakerState::HalfOpen || is_enough) {
            view = opened(view, now);
        }
        return true;
    };
    if (alter(count, before, after)) {
        say(before, after, why);
    }
}

void Breaker::count_bad(std::uint32_t epoch, std::uint64_t now) noexcept {
    View before;
    View after;
    const auto count = [&](View& view) {
        if (view.epoch != epoch) {
            return false;
        }
        view.bad = one_more(view.bad);
        const std::uint32_t most = origin_5xx_.load(std::memory_order_relaxed);
        if (view.state == BreakerState::HalfOpen || (most != 0 && view.bad >= most)) {
            view = opened(view, now);
        }
        return true;
    };
    if (alter(count, before, after)) {
        say(before, after, "it answers with 5xx");
    }
}

void Breaker::give_back_trial(std::uint32_t epoch) noexcept {
    View before;
    View after;
    const auto give_back = [&](View& view) {
        if (view.epoch != epoch || view.state != BreakerState::HalfOpen) {
            return false;
        }
        view.trials -= 1;
        return true;
    };
    // Not so when the breaker has flipped since: its trials were forgotten then.
    (void)alter(give_back, before, after);
}

}  // namespace sluice::fleet
