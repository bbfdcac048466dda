#include "core/net/event.hpp"

#include "core/net/loop.hpp"

namespace sluice::net {

Event::~Event() {
    while (first_ != nullptr) {
        first_->withdraw(Op::kClosedHere);
    }
}

void Event::set() noexcept {
    set_ = true;
    while (first_ != nullptr) {
        first_->withdraw(0);
    }
}

Status Event::WaitOp::await_resume() const {
    if (outcome() == 0) {
        return {};
    }
    return error("wait");
}

void Event::WaitOp::begin() noexcept {
    next_ = event_.first_;
    if (next_ != nullptr) {
        next_->prev_ = this;
    }
    event_.first_ = this;
}

void Event::WaitOp::withdraw(int outcome) noexcept {
    unlink();
    finish(outcome);
}

void Event::WaitOp::unlink() noexcept {
    (prev_ != nullptr ? prev_->next_ : event_.first_) = next_;
    if (next_ != nullptr) {
        next_->prev_ = prev_;
    }
    prev_ = next_ = nullptr;
}

}  // namespace sluice::net
