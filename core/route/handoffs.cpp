#include "core/route/handoffs.hpp"

#include <algorithm>
#include <utility>

namespace sluice::route {

Handoff Ledger::open(std::string object, std::uint64_t endpoint, std::uint64_t lease_us,
                     std::uint64_t now_us) {
    Handoff out;
    out.ledger_ = shared_from_this();
    out.object_ = std::move(object);
    out.endpoint_ = endpoint;
    out.since_us_ = now_us;
    out.lease_us_ = lease_us;
    const std::lock_guard lock(mu_);
    expire(now_us);
    Account& account = accounts_[endpoint];
    if (account.process == 0) {
        account.process = ++processes_;
    }
    account.live += 1;
    out.process_ = account.process;
    return out;
}

void Ledger::expire(std::uint64_t now_us) {
    for (auto it = accounts_.begin(); it != accounts_.end();) {
        auto& abandoned = it->second.abandoned;
        // In the order they were given up, which is nearly that of their ends.
        while (!abandoned.empty() && abandoned.front() <= now_us) {
            abandoned.pop_front();
            counts_.expired += 1;
        }
        const bool is_idle = it->second.live == 0 && abandoned.empty();
        it = is_idle ? accounts_.erase(it) : std::next(it);
    }
}

std::size_t Ledger::outstanding(std::uint64_t endpoint, std::uint64_t now_us) {
    const std::lock_guard lock(mu_);
    expire(now_us);
    const auto it = accounts_.find(endpoint);
    return it == accounts_.end() ? 0 : it->second.live + it->second.abandoned.size();
}

HandoffCounts Ledger::counts(std::uint64_t now_us) {
    const std::lock_guard lock(mu_);
    expire(now_us);
    return counts_;
}

void Ledger::forget(std::uint64_t endpoint) {
    const std::lock_guard lock(mu_);
    if (const auto it = accounts_.find(endpoint); it != accounts_.end()) {
        counts_.expired += it->second.abandoned.size();
        it->second.abandoned.clear();
        it->second.live = 0;
        it->second.process = ++processes_;
    }
}

// Null: of a process that is gone.
Ledger::Account* Ledger::account_of(std::uint64_t endpoint, std::uint64_t process) {
    const auto it = accounts_.find(endpoint);
    return it == accounts_.end() || it->second.process != process ? nullptr : &it->second;
}

bool Ledger::is_there(std::uint64_t endpoint, std::uint64_t process) const {
    const std::lock_guard lock(mu_);
    const auto it = accounts_.find(endpoint);
    return it != accounts_.end() && it->second.process == process;
}

void Ledger::settle(std::uint64_t endpoint, std::uint64_t process,
                    std::uint64_t HandoffCounts::* end) {
    const std::lock_guard lock(mu_);
    counts_.*end += 1;
    if (Account* account = account_of(endpoint, process)) {
        account->live -= 1;
    }
}

void Ledger::abandon(std::uint64_t endpoint, std::uint64_t process, std::uint64_t until_us) {
    const std::lock_guard lock(mu_);
    Account* account = account_of(endpoint, process);
    if (account == nullptr) {
        counts_.expired += 1;
        return;
    }
    account->live -= 1;
    if (account->abandoned.size() == kMostAbandoned) {
        account->abandoned.pop_front();
        counts_.expired += 1;
    }
    account->abandoned.push_back(until_us);
}

Handoff::Handoff(Handoff&& other) noexcept
    : ledger_(std::move(other.ledger_)),
      object_(std::move(other.object_)),
      endpoint_(other.endpoint_),
      process_(other.process_),
      since_us_(other.since_us_),
      lease_us_(other.lease_us_),
      is_given_(other.is_given_) {}

Handoff& Handoff::operator=(Handoff&& other) noexcept {
    if (this != &other) {
        abandon();
        ledger_ = std::move(other.ledger_);
        object_ = std::move(other.object_);
        endpoint_ = other.endpoint_;
        process_ = other.process_;
        since_us_ = other.since_us_;
        lease_us_ = other.lease_us_;
        is_given_ = other.is_given_;
    }
    return *this;
}

std::uint64_t Handoff::good_until_us() const noexcept {
    return lease_us_ == 0 ? UINT64_MAX : since_us_ + lease_us_ / 2;
}

bool Handoff::is_held() const {
    return ledger_ != nullptr && ledger_->is_there(endpoint_, process_);
}

bool Handoff::is_good(std::uint64_t now_us) const {
    return !is_given_ && now_us < good_until_us() && is_held();
}

std::optional<std::string_view> Handoff::give(std::uint64_t now_us) {
    if (!is_good(now_us)) {
        return std::nullopt;
    }
    is_given_ = true;
    return object_;
}

void Handoff::end(std::uint64_t HandoffCounts::* as) noexcept {
    if (ledger_) {
        ledger_->settle(endpoint_, process_, as);
        ledger_.reset();
    }
}

void Handoff::abandon() noexcept {
    if (ledger_ && lease_us_ == 0) {
        end(&HandoffCounts::unused);
    } else if (ledger_) {
        ledger_->abandon(endpoint_, process_, since_us_ + lease_us_);
        ledger_.reset();
    }
}

}  // namespace sluice::route
