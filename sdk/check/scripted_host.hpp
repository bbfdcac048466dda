// A gateway for one plugin instance: every service, no network, time by hand.
//
// Posted functions, timers and completions run in pump(), which plays the event thread. HTTP calls
// end with SLUICE_E_UNAVAILABLE, sockets never connect. What breaks the contract is remembered.
//
// Threads: [any] services from any thread; everything else from the thread that made it.
#pragma once
#include <sluice/sdk/fleet.h>
#include <sluice/sdk/kv.h>
#include <sluice/sdk/net.h>
#include <sluice/sdk/plugin.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sluice::check {

class ScriptedHost {
public:
    enum class Phase { Idle, Active, Closed };

    ScriptedHost();
    ~ScriptedHost();
    ScriptedHost(const ScriptedHost&) = delete;
    ScriptedHost& operator=(const ScriptedHost&) = delete;

    const sluice_host* table() const noexcept { return &host_; }
    static ScriptedHost& of(const sluice_host* host) noexcept {
        return *static_cast<ScriptedHost*>(host->ctx);
    }
    static const std::vector<std::string>& service_ids();

    // Answers NULL for this service from now on.
    void withhold(std::string service_id) { withheld_.insert(std::move(service_id)); }
    bool is_withheld(const char* service_id) const { return withheld_.contains(service_id); }
    // Metrics may be declared up to here.
    void end_declaring() { may_declare_ = false; }
    bool may_declare() const { return may_declare_; }
    void set_phase(Phase phase) { phase_ = phase; }
    Phase phase() const { return phase_; }
    void attach(std::uint64_t endpoint) { endpoints_.insert(endpoint); }
    void detach(std::uint64_t endpoint) { endpoints_.erase(endpoint); }

    // Plays the event thread: runs what is due, then moves the clock on, `turns` times.
    void pump(int turns = 3, std::uint64_t step_us = 1'000'000);
    // Timers, calls and sockets that are still there.
    std::size_t open_things() const;

    bool has_failed() const { return has_failed_; }
    void note_failure() { has_failed_ = true; }
    // Breaches of the contract, empty when there are none.
    std::string problems() const;
    void blame(std::string what);
    // Service calls that came after deactivate.
    std::uint64_t late_calls() const { return late_calls_; }
    void note_call() {
        if (phase_ == Phase::Closed) {
            ++late_calls_;
        }
    }

    // For the service tables.
    struct Timer {
        std::uint64_t due_us, period_us;
        sluice_event_fn fn;
        void* user;
    };
    struct Call {
        sluice_http_fn done;
        void* user;
    };
    // The state and thread that an [event] service needs; blames otherwise.
    bool may_use_event_service(const char* what);
    bool is_on_event_thread() const;
    std::uint64_t now_us() const { return clock_us_; }
    sluice_status post(sluice_event_fn fn, void* user);
    std::map<std::uint64_t, Timer> timers;
    std::map<std::uint64_t, Call> calls;
    std::map<std::uint64_t, std::uint32_t> sockets;  // kind
    std::set<std::uint64_t>& endpoints() { return endpoints_; }
    std::uint64_t next_handle = 1;
    std::uint64_t num_metrics = 0;

private:
    sluice_host host_{};
    std::set<std::string> withheld_;
    std::set<std::uint64_t> endpoints_;
    std::atomic<Phase> phase_{Phase::Idle};
    std::atomic<std::uint64_t> clock_us_{1'000'000'000};
    std::atomic<std::uint64_t> late_calls_{0};
    std::atomic<bool> has_failed_{false}, may_declare_{true};
    const std::thread::id event_thread_ = std::this_thread::get_id();
    std::atomic<bool> is_pumping_{false};  // only while it pumps is that thread the event thread

    mutable std::mutex mu_;
    std::vector<std::pair<sluice_event_fn, void*>> posts_;  // guarded by mu_
    std::vector<std::string> problems_;                     // guarded by mu_

    friend class EventTurn;
};

// Marks the making thread as the event thread for a scope: attach and detach are [event] too.
class EventTurn {
public:
    explicit EventTurn(ScriptedHost& host) : host_(host) { host_.is_pumping_ = true; }
    ~EventTurn() { host_.is_pumping_ = false; }
    EventTurn(const EventTurn&) = delete;
    EventTurn& operator=(const EventTurn&) = delete;

private:
    ScriptedHost& host_;
};

}  // namespace sluice::check
