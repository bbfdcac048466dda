// The gateway as one instance sees it: its sluice_host, its standing, and all it holds of ours.
//
// Threads: as tagged. Event-side members are touched on the event thread only.
// Owns:    timers, calls and sockets the instance has open; they end with close().
// Errors:  contract breaches are counted as defects of the plugin, logged (rate limited), survived.
#pragma once
#include <sluice/sdk/plugin.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/metrics.hpp"
#include "core/plugin/plugin.hpp"

namespace sluice::plugin {

class Runtime;
struct EventSide;
struct MetricBook;

// Who runs plugin code on this thread just now; see the SDK's thread tags.
enum class Tag : std::uint8_t { None, Control, Event, Request };
Tag current_tag() noexcept;

class HostContext : public std::enable_shared_from_this<HostContext> {
public:
    enum class Phase : std::uint8_t { Idle, Activating, Active, Faulted, Closed };

    HostContext(Runtime& runtime, PluginPtr plugin, std::string instance,
                std::function<void(const std::string&)> on_fault);
    ~HostContext();
    HostContext(const HostContext&) = delete;
    HostContext& operator=(const HostContext&) = delete;

    static HostContext& of(const sluice_host* host) noexcept {
        return *static_cast<HostContext*>(host->ctx);
    }
    const sluice_host* table() const noexcept { return &host_; }
    Runtime& runtime() const noexcept { return runtime_; }
    const std::string& plugin_id() const noexcept { return plugin_->id(); }
    const std::string& instance() const noexcept { return instance_; }

    Phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
    bool is_active() const noexcept { return phase() == Phase::Active; }

    // [control]
    void begin_activation();
    // What was posted during activation runs now.
    void end_activation();
    // Ends every service, cancels what is left and counts it as a defect, unless the instance was
    // faulted or never came up. False when the event thread did not answer: plugin code may still
    // run there, and nothing of the instance may be freed.
    bool close();

    // [any] The instance is broken; on_fault is told once.
    void fail(std::string_view why);
    std::string fault_text() const;
    // [any] Three of these within 60 s are a fault.
    void count_internal(std::string_view text);
    void count_defect(std::string_view what);
    std::uint64_t defects() const noexcept { return defects_.load(std::memory_order_relaxed); }
    // [any] Plugin code took this long; `bytes` were handed in. Counts what is over budget.
    void spent(Tag tag, std::uint64_t us, std::size_t bytes);

    // [any] SLUICE_E_* when not accepted.
    sluice_status post(void (*fn)(void*), void* user);

    // [event] Runs plugin code, unless the instance gets no calls any more.
    template <class F>
    bool enter_event(std::size_t bytes, const F& f) {
        if (!is_active()) {
            return false;
        }
        const std::uint64_t begin = begin_call(Tag::Event);
        f();
        end_call(Tag::Event, begin, bytes);
        return true;
    }
    // [event] True when the caller may go on: event thread, instance active. Counts a defect of
    // the wrong thread.
    bool may_use_event_service(const char* what);

    // [any] Ends something of the event side: at once there, from another thread (deactivate() on
    // control) by waiting for it, so that it holds when this returns.
    void on_event_thread(const std::function<void(HostContext&)>& fn);

    EventSide& event_side() noexcept { return *event_side_; }
    MetricBook& metric_book() noexcept { return *metric_book_; }

private:
    std::uint64_t begin_call(Tag tag) noexcept;
    void end_call(Tag tag, std::uint64_t begin_us, std::size_t bytes);
    void post_now(void (*fn)(void*), void* user);

    static const void* query(const sluice_host* host, const char* service_id) noexcept;
    static void fail_thunk(const sluice_host* host, sluice_status why, sluice_str text) noexcept;

    Runtime& runtime_;
    const PluginPtr plugin_;
    const std::string instance_;
    const std::string version_;
    sluice_host host_{};
    std::atomic<Phase> phase_{Phase::Idle};
    std::atomic<bool> is_clean_{false};  // closed, and the event thread has let go of it
    std::atomic<std::uint64_t> defects_{0};
    std::atomic<std::uint32_t> posts_waiting_{0};
    std::atomic<std::uint32_t> far_over_budget_{0};
    metrics::Counter& defect_counter_;
    metrics::Counter& over_budget_counter_;
    metrics::Counter& fault_counter_;

    mutable std::mutex mu_;
    std::function<void(const std::string&)> on_fault_;            // guarded by mu_
    std::string fault_text_;                                      // guarded by mu_
    std::array<std::uint64_t, 3> internal_us_{};                  // guarded by mu_
    std::vector<std::pair<void (*)(void*), void*>> early_posts_;  // guarded by mu_

    std::unique_ptr<EventSide> event_side_;
    std::unique_ptr<MetricBook> metric_book_;
};

// Marks this thread as running plugin code of a class, for the time of a scope.
class Crossing {
public:
    explicit Crossing(Tag tag) noexcept;
    ~Crossing();
    Crossing(const Crossing&) = delete;
    Crossing& operator=(const Crossing&) = delete;

private:
    Tag before_;
};

}  // namespace sluice::plugin
