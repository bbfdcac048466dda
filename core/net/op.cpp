#include "core/net/op.hpp"

#include <cerrno>
#include <system_error>

#include "core/net/loop.hpp"

namespace sluice::net {

bool Op::await_ready() noexcept {
    if (wait_.cancel != nullptr && wait_.cancel->fired()) {
        outcome_ = kCancelled;
        state_ = State::Done;
        return true;
    }
    if (try_now()) {
        state_ = State::Done;
        return loop_.spend_inline_op();
    }
    if (wait_.deadline_us <= loop_.now_us()) {
        outcome_ = kTimedOut;
        state_ = State::Done;
        return loop_.spend_inline_op();
    }
    return false;
}

void Op::await_suspend(std::coroutine_handle<> waiter) noexcept {
    waiter_ = waiter;
    if (state_ == State::Done) {  // only its turn is over
        state_ = State::Queued;
        loop_.queue_ready(*this);
        return;
    }
    state_ = State::Pending;
    if (wait_.deadline_us != kNever) {
        loop_.timers().arm(*this, wait_.deadline_us);
    }
    if (wait_.cancel != nullptr) {
        wait_.cancel->attach(*this);
    }
    begin();
}

void Op::finish(int outcome) noexcept {
    if (state_ != State::Pending) {
        return;
    }
    outcome_ = outcome;
    if (is_armed()) {
        loop_.timers().drop(*this);
    }
    leave();
    state_ = State::Queued;
    loop_.queue_ready(*this);
}

void Op::give_up() noexcept {
    if (state_ == State::Pending) {
        state_ = State::Done;
        abandon();
    } else if (state_ == State::Queued) {
        state_ = State::Done;
        loop_.unqueue_ready(*this);
    }
}

Error Op::error(const char* what) const {
    return error_for(outcome_, what);
}

Error error_for(int outcome, const char* what) {
    const std::string_view name(what);
    switch (outcome) {
        case Op::kTimedOut:
            return Error{Code::Timeout, std::string(name) + ": timed out"};
        case Op::kCancelled:
            return Error{Code::Cancelled, std::string(name) + ": cancelled"};
        case Op::kClosedHere:
            return Error{Code::Closed, std::string(name) + ": closed on our side"};
        default:
            break;
    }
    Code code = Code::Io;
    switch (outcome) {
        case ECONNREFUSED:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case EHOSTDOWN:
        case ENETDOWN:
            code = Code::Unavailable;
            break;
        case ECONNRESET:
        case ECONNABORTED:
        case EPIPE:
        case ENOTCONN:
            code = Code::Closed;
            break;
        case ETIMEDOUT:
            code = Code::Timeout;
            break;
        case EPROTONOSUPPORT:
        case ESOCKTNOSUPPORT:
        case EAFNOSUPPORT:
            code = Code::Unsupported;
            break;
        default:
            break;
    }
    return Error{code, std::string(name) + ": " + std::generic_category().message(outcome)};
}

}  // namespace sluice::net
