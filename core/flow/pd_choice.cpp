// Which endpoints the legs of a P/D exchange run on, the wait for a place at a prefill endpoint,
// and what is remembered of the choice.
#include <algorithm>

#include "core/base/log.hpp"
#include "core/flow/pd_exchange.hpp"

namespace sluice::flow {

// Nobody is found for who has lost each choice to others, or to edits, for so long.
route::Decision PdExchange::choose(std::uint32_t role) {
    while (true) {
        if (++choices_ > kMostChoices) {
            log::warn("a request was given no endpoint it could keep",
                      {{"request_id", x_.receipt_.id}, {"choices", kMostChoices}});
            return {};
        }
        route::Question question = x_.question();
        question.role = role;
        question.chain = spec_.is_cache_aware ? &chain_ : nullptr;
        question.tried = tried_[role];
        const route::Decision decision = x_.worker_.ladder.choose(question, x_.receipt_);
        if (!decision.is_found && !decision.to_wait_for) {
            return decision;
        }
        const std::size_t index =
            decision.is_found ? decision.index : decision.to_wait_for.value_or(0);
        if (x_.scene_.is_still_in(index)) {
            return decision;
        }
        tried_[role].push_back(index);  // an edit took it out meanwhile
    }
}

// As the ladder sees it: an engine that does not name the model has the last word on it.
bool PdExchange::is_fit(std::size_t index) const {
    const fleet::Excluded why =
        x_.service_->pool->excluded(index, x_.served_model_, x_.scene_.now_us());
    return x_.scene_.is_still_in(index) &&
           (why == fleet::Excluded::No || why == fleet::Excluded::Model);
}

// It drains, or an edit took it out of the rule, and it is well: work that was begun for it is
// still its. (A breaker has the last word when the leg enters.)
bool PdExchange::may_finish_at(std::size_t index) const {
    const fleet::Pool& pool = *x_.service_->pool;
    const fleet::Excluded why = pool.excluded(index, x_.served_model_, x_.scene_.now_us());
    const bool is_out = why == fleet::Excluded::No || why == fleet::Excluded::Model ||
                        why == fleet::Excluded::Draining;
    const fleet::Health health = pool[index].endpoint->health();
    return is_out && !is_fit(index) && health != fleet::Health::Down &&
           health != fleet::Health::Asleep && (!pool[index].probe || pool[index].probe->is_up());
}

bool PdExchange::has_other(std::uint32_t role, std::size_t than) const {
    const fleet::Pool& pool = *x_.service_->pool;
    const std::vector<std::size_t>& tried = tried_[role];
    for (std::size_t i = 0; i < pool.size(); ++i) {
        const bool is_tried = std::find(tried.begin(), tried.end(), i) != tried.end();
        if (i != than && !is_tried && pool[i].spec.role == role && is_fit(i)) {
            return true;
        }
    }
    return false;
}

bool PdExchange::holds_prompt(const route::Decision& decode) const {
    return route::holds_prompt(spec_, decode, x_.scratch_->prompt.tokens.size());
}

net::Task<PdExchange::Step> PdExchange::admit() {
    while (true) {
        if (x_.client_.departure().fired()) {
            co_return interrupted();
        }
        if (!slot_.is_held()) {
            prefill_ = choose(rules::kRolePrefill);
        }
        if (!prefill_.is_found && prefill_.to_wait_for) {
            const Step waited = co_await wait_for_place(*prefill_.to_wait_for);
            if (waited != Step::Answered) {
                co_return waited;
            }
            if (!slot_.is_held()) {
                continue;
            }
        }
        if (!prefill_.is_found) {
            co_return cure(spent_.legs > 0 ? PdFault::PrefillUnreached : PdFault::NoPrefill);
        }
        const std::uint64_t endpoint = (*x_.service_->pool)[prefill_.index].endpoint->id();
        if (!slot_.is_held()) {
            slot_ = x_.service_->pd->admission->try_take(endpoint);
        }
        // Somebody may have been faster: then it is chosen anew.
        if (slot_.is_held() && prefill_leg_.enter(prefill_.index)) {
            PdMetrics::count_tier(metrics_, prefill_.tier);
            co_return Step::Answered;
        }
        slot_.release();
    }
}

net::Task<PdExchange::Step> PdExchange::wait_for_place(std::size_t index) {
    const std::uint64_t begun = x_.scene_.now_us();
    if (park_until_us_ == 0) {
        park_until_us_ = x_.worker_.loop.after(std::chrono::milliseconds(spec_.max_park_ms));
    }
    const auto& admission = x_.service_->pd->admission;
    route::Waiter waiter(x_.worker_.loop, admission, (*x_.service_->pool)[index].endpoint->id());
    if (!waiter.park()) {
        x_.worker_.pd_metrics.counters.shed.add();
        x_.refuse({429, "pd_overloaded", "all prefill endpoints at cap", {}, "rate_limit_error"});
        co_return Step::Over;
    }
    x_.worker_.pd_metrics.counters.queued.add();
    const net::Wait patience{std::min(park_until_us_, x_.scene_.deadline_us), &x_.halt_};
    const Status granted = co_await waiter.granted(patience);
    queued_us_ += x_.scene_.now_us() - begun;
    if (!granted) {
        if (granted.error().code == Code::Cancelled) {
            co_return interrupted();
        }
        if (x_.is_overdue()) {
            x_.refuse_timeout();
        } else {
            x_.refuse({504,
                       "pd_admission_park_timeout",
                       "no prefill endpoint had room in time",
                       {},
                       "api_error"});
        }
        co_return Step::Over;
    }
    slot_ = waiter.take();
    if (slot_.is_held() && !is_fit(index)) {
        slot_.release();
    }
    prefill_ = {};
    prefill_.is_found = slot_.is_held();
    prefill_.index = index;
    prefill_.tier = route::Tier::Selector;
    co_return Step::Answered;
}

void PdExchange::learn_prefix() {
    if (spec_.is_cache_aware) {
        x_.service_->pd->prefixes.learn(chain_, prefill_leg_.leg().endpoint().id());
    }
}

void PdExchange::learn_session() {
    const auto id = [this](std::size_t index) {
        return (*x_.service_->pool)[index].endpoint->id();
    };
    if (x_.session_ != 0) {
        x_.service_->pd->sessions.learn(x_.session_, {id(prefill_.index), id(decode_.index)},
                                        x_.scene_.now_us());
    }
}

}  // namespace sluice::flow
