#include "core/net/cancel.hpp"

namespace sluice::net {

void Cancel::Waiter::leave() noexcept {
    if (of_ == nullptr) {
        return;
    }
    (prev_ != nullptr ? prev_->next_ : of_->first_) = next_;
    if (next_ != nullptr) {
        next_->prev_ = prev_;
    }
    prev_ = next_ = nullptr;
    of_ = nullptr;
}

Cancel::~Cancel() {
    while (first_ != nullptr) {
        first_->leave();
    }
}

void Cancel::fire() noexcept {
    fired_ = true;
    while (first_ != nullptr) {
        Waiter& waiter = *first_;
        waiter.leave();
        waiter.cancelled();
    }
}

void Cancel::attach(Waiter& waiter) noexcept {
    waiter.of_ = this;
    waiter.next_ = first_;
    if (first_ != nullptr) {
        first_->prev_ = &waiter;
    }
    first_ = &waiter;
}

}  // namespace sluice::net
