#include "core/base/clock.hpp"
#include "core/net/loop.hpp"
#include "core/plugin/event_side.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/http_call.hpp"
#include "core/plugin/plugin_timer.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"
#include "core/plugin/services.hpp"
#include "core/plugin/zmq_link.hpp"

namespace sluice::plugin {

PluginTimer::PluginTimer(HostContext& context, std::uint64_t id, std::uint64_t period_us,
                         void (*fn)(void*), void* user) noexcept
    : context_(context), id_(id), period_us_(period_us), fn_(fn), user_(user) {}

void PluginTimer::start(std::uint64_t delay_us) noexcept {
    const std::uint64_t now = now_us();
    due_us_ = delay_us > UINT64_MAX / 2 ? UINT64_MAX / 2 : now + delay_us;
    context_.runtime().events().loop().timers().arm(*this, due_us_);
}

void PluginTimer::expired() noexcept {
    // The callback may cancel this timer, so nothing of it is touched afterwards.
    HostContext& context = context_;
    const auto keep = context.shared_from_this();
    const auto fn = fn_;
    void* const user = user_;
    std::unique_ptr<PluginTimer> self;
    if (period_us_ == 0) {
        auto& timers = context.event_side().timers;
        if (const auto it = timers.find(id_); it != timers.end()) {
            self = std::move(it->second);
            timers.erase(it);
        }
    } else {
        // Late ticks coalesce: the next one is the first of the series that is still to come.
        const std::uint64_t now = now_us();
        const std::uint64_t missed = now > due_us_ ? (now - due_us_) / period_us_ : 0;
        due_us_ += period_us_ * (missed + 1);
        context.runtime().events().loop().timers().arm(*this, due_us_);
    }
    context.enter_event(0, [&] { fn(user); });
}

EventSide::EventSide() = default;
EventSide::~EventSide() = default;

std::size_t EventSide::cancel_all() {
    const std::size_t left = timers.size() + calls.size() + sockets.size();
    timers.clear();
    for (const auto& [id, call] : calls) {
        call->cancel();
    }
    calls.clear();
    for (const auto& [id, link] : sockets) {
        link->close();
    }
    sockets.clear();
    return left;
}

namespace {

int on_event_thread(const sluice_host* host) noexcept {
    return HostContext::of(host).runtime().events().is_current() ? 1 : 0;
}

sluice_status post(const sluice_host* host, sluice_event_fn fn, void* user) noexcept {
    return HostContext::of(host).post(fn, user);
}

sluice_status timer_start(const sluice_host* host, std::uint64_t delay_us, std::uint64_t period_us,
                          sluice_event_fn fn, void* user, sluice_timer** out,
                          sluice_error* err) noexcept {
    HostContext& context = HostContext::of(host);
    if (!context.may_use_event_service("timer_start off the event thread")) {
        return report(err, SLUICE_E_STATE,
                      "timers start on the event thread of an active instance");
    }
    if (fn == nullptr || out == nullptr) {
        return report(err, SLUICE_E_INVALID, "no function or no place for the handle");
    }
    EventSide& side = context.event_side();
    if (side.timers.size() >= context.runtime().options().max_timers) {
        return report(err, SLUICE_E_LIMIT, "too many timers");
    }
    const std::uint64_t id = side.next_handle++;
    auto timer = std::make_unique<PluginTimer>(context, id, period_us, fn, user);
    timer->start(delay_us);
    side.timers.emplace(id, std::move(timer));
    *out = to_handle<sluice_timer>(id);
    return SLUICE_OK;
}

void timer_cancel(const sluice_host* host, sluice_timer* timer) noexcept {
    HostContext& context = HostContext::of(host);
    if (timer == nullptr || context.phase() == HostContext::Phase::Closed) {
        return;
    }
    context.on_event_thread(
        [timer](HostContext& c) { c.event_side().timers.erase(from_handle(timer)); });
}

std::uint64_t event_now_us(const sluice_host*) noexcept {
    return now_us();
}

}  // namespace

const sluice_event_api& event_service() noexcept {
    static const sluice_event_api api{sizeof(sluice_event_api),
                                      0,
                                      &on_event_thread,
                                      &post,
                                      &timer_start,
                                      &timer_cancel,
                                      &event_now_us};
    return api;
}

}  // namespace sluice::plugin
