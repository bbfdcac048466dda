#include "core/route/admission.hpp"

#include <algorithm>

namespace sluice::route {

struct Admission::Place {
    net::Loop* loop = nullptr;
    net::Event* woken = nullptr;  // the loop's; null once the waiter is gone
    bool is_granted = false;      // guarded by Admission::mu_; it holds a slot
    bool is_queued = true;        // guarded by Admission::mu_
};

Slot::Slot(Slot&& other) noexcept : from_(std::move(other.from_)), endpoint_(other.endpoint_) {}

Slot& Slot::operator=(Slot&& other) noexcept {
    if (this != &other) {
        release();
        from_ = std::move(other.from_);
        endpoint_ = other.endpoint_;
    }
    return *this;
}

void Slot::release() noexcept {
    if (from_) {
        from_->give_back(endpoint_);
        from_.reset();
    }
}

bool Admission::is_full(const Line& line) const noexcept {
    return limits_.max_inflight != 0 && (line.held >= limits_.max_inflight || !line.queue.empty());
}

// Posted while the lock is held: a waiter that leaves waits for the lock first, so its loop is
// still there.
void Admission::wake(const std::shared_ptr<Place>& place) {
    place->is_queued = false;
    place->loop->post([place] {
        if (place->woken != nullptr) {
            place->woken->set();
        }
    });
}

void Admission::let_in(Line& line) {
    while (!line.queue.empty() && (limits_.max_inflight == 0 || line.held < limits_.max_inflight)) {
        const std::shared_ptr<Place> first = std::move(line.queue.front());
        line.queue.pop_front();
        line.held += 1;
        first->is_granted = true;
        wake(first);
    }
}

void Admission::forget_if_idle(std::map<std::uint64_t, Line>::iterator line) {
    if (line->second.held == 0 && line->second.queue.empty()) {
        lines_.erase(line);
    }
}

void Admission::give_back(std::uint64_t endpoint) noexcept {
    const std::lock_guard lock(mu_);
    const auto line = lines_.find(endpoint);
    if (line == lines_.end()) {
        return;
    }
    line->second.held -= 1;
    let_in(line->second);
    forget_if_idle(line);
}

void Admission::set_limits(AdmissionLimits limits) {
    const std::lock_guard lock(mu_);
    limits_ = limits;
    for (auto& [endpoint, line] : lines_) {
        let_in(line);
    }
}

AdmissionLimits Admission::limits() const {
    const std::lock_guard lock(mu_);
    return limits_;
}

void Admission::retain(const std::function<bool(std::uint64_t)>& stays) {
    const std::lock_guard lock(mu_);
    for (auto& [endpoint, line] : lines_) {
        if (stays(endpoint)) {
            continue;
        }
        for (const auto& place : line.queue) {
            wake(place);
        }
        line.queue.clear();
    }
    std::erase_if(lines_, [](const auto& entry) {
        return entry.second.held == 0 && entry.second.queue.empty();
    });
}

bool Admission::is_full(std::uint64_t endpoint) const {
    const std::lock_guard lock(mu_);
    const auto line = lines_.find(endpoint);
    return line != lines_.end() && is_full(line->second);
}

Slot Admission::try_take(std::uint64_t endpoint) {
    const std::lock_guard lock(mu_);
    Line& line = lines_[endpoint];
    if (is_full(line)) {
        return {};
    }
    line.held += 1;
    return {shared_from_this(), endpoint};
}

std::size_t Admission::queued(std::uint64_t endpoint) const {
    const std::lock_guard lock(mu_);
    const auto line = lines_.find(endpoint);
    return line == lines_.end() ? 0 : line->second.queue.size();
}

std::uint32_t Admission::held(std::uint64_t endpoint) const {
    const std::lock_guard lock(mu_);
    const auto line = lines_.find(endpoint);
    return line == lines_.end() ? 0 : line->second.held;
}

Waiter::Waiter(net::Loop& loop, std::shared_ptr<Admission> at, std::uint64_t endpoint)
    : woken_(loop), loop_(loop), at_(std::move(at)), endpoint_(endpoint) {}

Waiter::~Waiter() {
    if (!place_) {
        return;
    }
    place_->woken = nullptr;
    bool is_granted = false;
    {
        const std::lock_guard lock(at_->mu_);
        is_granted = place_->is_granted;
        if (place_->is_queued) {
            const auto line = at_->lines_.find(endpoint_);
            std::erase(line->second.queue, place_);
            at_->forget_if_idle(line);
        }
    }
    if (is_granted) {
        at_->give_back(endpoint_);
    }
}

bool Waiter::park() {
    const std::lock_guard lock(at_->mu_);
    Admission::Line& line = at_->lines_[endpoint_];
    if (line.queue.size() >= at_->limits_.queue_depth) {
        return false;
    }
    place_ = std::make_shared<Admission::Place>();
    place_->loop = &loop_;
    place_->woken = &woken_;
    line.queue.push_back(place_);
    // A place may have become free since it was found full.
    at_->let_in(line);
    return true;
}

net::Task<Status> Waiter::granted(net::Wait wait) {
    Status woken = co_await woken_.wait(wait);
    co_return woken;
}

Slot Waiter::take() {
    const std::lock_guard lock(at_->mu_);
    if (!place_ || !place_->is_granted) {
        return {};
    }
    place_->is_granted = false;
    place_->woken = nullptr;
    place_.reset();
    return {at_, endpoint_};
}

}  // namespace sluice::route
