// Timer, HttpCall, ZmqSocket: what a plugin starts on the event thread, as owners.
//
// Threads: event thread only, construction apart.
// Errors:  start and open return a Started; a callback's exception is logged by Host::contain.
// Owns:    the handle and the callback; destroying or restarting one cancels it, also from inside
//          its own callback (the state outlives the call by a shared pointer).
#pragma once
#include "sluice/sdk/cxx/host.hpp"

namespace sluice {

class Timer {
public:
    Timer() = default;
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    ~Timer() { cancel(); }

    // period_us 0 = one shot. A running timer is replaced.
    Started start(const Host& host, std::uint64_t delay_us, std::uint64_t period_us,
                  std::function<void()> fn) {
        cancel();
        if (host.event() == nullptr) {
            return {SLUICE_E_UNSUPPORTED, "no event service"};
        }
        auto state = std::make_shared<State>();
        state->host = host;
        state->fn = std::move(fn);
        state->once = period_us == 0;
        state->self = state;
        sluice_error err = make_error();
        const sluice_status status = host.event()->timer_start(
            host.raw(), delay_us, period_us, &State::fire, state.get(), &state->handle, &err);
        if (status != SLUICE_OK) {
            state->self.reset();
            return {status, std::string(view(err))};
        }
        state_ = std::move(state);
        return {};
    }
    void cancel() noexcept {
        if (std::shared_ptr<State> state = std::move(state_)) {
            if (state->handle != nullptr) {
                state->host.event()->timer_cancel(state->host.raw(),
                                                  std::exchange(state->handle, nullptr));
            }
            state->self.reset();
        }
    }
    bool running() const noexcept { return state_ != nullptr && state_->handle != nullptr; }

private:
    struct State {
        Host host;
        std::function<void()> fn;
        sluice_timer* handle = nullptr;
        bool once = false;
        std::shared_ptr<State> self;

        static void fire(void* user) {
            const std::shared_ptr<State> keep = static_cast<State*>(user)->self;
            if (keep == nullptr) {
                return;
            }
            if (keep->once && keep->handle != nullptr) {
                // Cancelling a fired one-shot gives its handle back to the host.
                keep->host.event()->timer_cancel(keep->host.raw(),
                                                 std::exchange(keep->handle, nullptr));
            }
            keep->host.contain(keep->fn);
            if (keep->handle == nullptr) {
                keep->self.reset();
            }
        }
    };
    std::shared_ptr<State> state_;
};

struct HttpAsk {
    std::uint64_t endpoint = 0;  // its origin; 0 = `target` is an absolute URL
    std::string_view method = "GET";
    std::string_view target = {};
    std::span<const sluice_pair> headers = {};
    std::string_view body = {};
    std::uint64_t timeout_us = 0;  // 0 = the instance's default
    std::uint64_t max_body_bytes = 1U << 20U;
};

class HttpCall {
public:
    HttpCall() = default;
    HttpCall(const HttpCall&) = delete;
    HttpCall& operator=(const HttpCall&) = delete;
    ~HttpCall() { cancel(); }

    // A call in flight is cancelled first. `done` runs at most once, never inside start().
    Started start(const Host& host, const HttpAsk& ask,
                  std::function<void(const sluice_http_result&)> done) {
        cancel();
        if (host.http() == nullptr) {
            return {SLUICE_E_UNSUPPORTED, "no http service"};
        }
        auto state = std::make_shared<State>();
        state->host = host;
        state->done = std::move(done);
        state->self = state;
        sluice_http_request req{};
        req.size = sizeof req;
        req.num_headers = static_cast<std::uint32_t>(ask.headers.size());
        req.endpoint = ask.endpoint;
        req.method = borrow(ask.method);
        req.target = borrow(ask.target);
        req.headers = ask.headers.data();
        req.body = borrow_bytes(ask.body);
        req.timeout_us = ask.timeout_us;
        req.max_body_bytes = ask.max_body_bytes;
        sluice_error err = make_error();
        const sluice_status status =
            host.http()->start(host.raw(), &req, &State::finish, state.get(), &state->handle, &err);
        if (status != SLUICE_OK) {
            state->self.reset();
            return {status, std::string(view(err))};
        }
        state_ = std::move(state);
        return {};
    }
    void cancel() noexcept {
        if (std::shared_ptr<State> state = std::move(state_)) {
            if (state->handle != nullptr) {
                state->host.http()->cancel(state->host.raw(),
                                           std::exchange(state->handle, nullptr));
            }
            state->self.reset();
        }
    }
    bool running() const noexcept { return state_ != nullptr && state_->handle != nullptr; }

private:
    struct State {
        Host host;
        std::function<void(const sluice_http_result&)> done;
        sluice_http_call* handle = nullptr;
        std::shared_ptr<State> self;

        static void finish(void* user, const sluice_http_result* result) {
            const std::shared_ptr<State> keep = static_cast<State*>(user)->self;
            if (keep == nullptr) {
                return;
            }
            keep->handle = nullptr;  // from here on there is nothing to cancel
            keep->host.contain([&] { keep->done(*result); });
            keep->self.reset();
        }
    };
    std::shared_ptr<State> state_;
};

struct ZmqAsk {
    std::uint32_t kind = SLUICE_ZMQ_SUB;
    std::uint64_t endpoint = 0;
    std::uint32_t dp_rank = 0;
    std::uint32_t hwm = 0;  // messages; 0 = the host's 100000
    std::string_view address = {};
    std::string_view topic = {};
    std::uint64_t max_message_bytes = 64U << 20U;
};

class ZmqSocket {
public:
    ZmqSocket() = default;
    ZmqSocket(const ZmqSocket&) = delete;
    ZmqSocket& operator=(const ZmqSocket&) = delete;
    ~ZmqSocket() { close(); }

    Started open(const Host& host, const ZmqAsk& ask,
                 std::function<void(std::span<const sluice_bytes>)> on_message,
                 std::function<void(bool)> on_link = {}) {
        close();
        if (host.zmq() == nullptr) {
            return {SLUICE_E_UNSUPPORTED, "no zmq service"};
        }
        auto state = std::make_shared<State>();
        state->host = host;
        state->on_message = std::move(on_message);
        state->on_link = std::move(on_link);
        state->self = state;
        sluice_zmq_options opts{};
        opts.size = sizeof opts;
        opts.kind = ask.kind;
        opts.endpoint = ask.endpoint;
        opts.dp_rank = ask.dp_rank;
        opts.hwm = ask.hwm;
        opts.address = borrow(ask.address);
        opts.topic = borrow(ask.topic);
        opts.max_message_bytes = ask.max_message_bytes;
        const sluice_zmq_handler handler{sizeof(sluice_zmq_handler), 0, state.get(),
                                         &State::message, &State::link};
        sluice_error err = make_error();
        const sluice_status status =
            host.zmq()->open(host.raw(), &opts, &handler, &state->handle, &err);
        if (status != SLUICE_OK) {
            state->self.reset();
            return {status, std::string(view(err))};
        }
        state_ = std::move(state);
        return {};
    }
    // SLUICE_AGAIN = the queue is full and nothing was sent.
    sluice_status send(std::span<const sluice_bytes> frames) noexcept {
        if (state_ == nullptr) {
            return SLUICE_E_STATE;
        }
        return state_->host.zmq()->send(state_->host.raw(), state_->handle, frames.data(),
                                        static_cast<std::uint32_t>(frames.size()));
    }
    void close() noexcept {
        if (std::shared_ptr<State> state = std::move(state_)) {
            state->host.zmq()->close(state->host.raw(), std::exchange(state->handle, nullptr));
            state->self.reset();
        }
    }
    bool is_open() const noexcept { return state_ != nullptr; }

private:
    struct State {
        Host host;
        std::function<void(std::span<const sluice_bytes>)> on_message;
        std::function<void(bool)> on_link;
        sluice_zmq_socket* handle = nullptr;
        std::shared_ptr<State> self;

        static void message(void* user, const sluice_bytes* frames, std::uint32_t count) {
            if (const std::shared_ptr<State> keep = static_cast<State*>(user)->self) {
                keep->host.contain([&] { keep->on_message({frames, count}); });
            }
        }
        static void link(void* user, int connected) {
            if (const std::shared_ptr<State> keep = static_cast<State*>(user)->self) {
                keep->host.contain([&] {
                    if (keep->on_link) {
                        keep->on_link(connected != 0);
                    }
                });
            }
        }
    };
    std::shared_ptr<State> state_;
};

}  // namespace sluice
