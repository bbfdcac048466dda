// A timer of a plugin instance on the event thread's loop.
//
// Threads: event.
// Units:   microseconds, at the wheel's resolution of about one millisecond.
#pragma once
#include <cstdint>

#include "core/net/timer_wheel.hpp"

namespace sluice::plugin {

class HostContext;

class PluginTimer final : public net::Timer {
public:
    PluginTimer(HostContext& context, std::uint64_t id, std::uint64_t period_us, void (*fn)(void*),
                void* user) noexcept;
    void start(std::uint64_t delay_us) noexcept;
    void expired() noexcept override;

private:
    HostContext& context_;
    std::uint64_t id_;
    std::uint64_t period_us_;
    std::uint64_t due_us_ = 0;
    void (*fn_)(void*);
    void* user_;
};

}  // namespace sluice::plugin
