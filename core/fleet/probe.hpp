// Active health probes: one prober a daemon, one probe for each rules::ProbeSpec, shared by every
// rule and health object that asks for the same.
//
// A probe starts at once. The endpoint is eligible until a result says otherwise: `retries`
// consecutive failures take it out, one success brings it back. A try that this side could not make
// (probe_try.hpp) says nothing about the endpoint: it changes the reason and nothing else.
//
// Threads: Prober owns one ("sluice-probe") with a loop of its own. probe(), retain() control;
//          ProbeState any.
// Units:   interval in seconds; one try takes at most min(5 s, interval), and the next begins an
//          interval after it began.
// Limits:  kMaxTries at a time; others wait for their turn. The same question is never asked of an
//          address twice at a time, even by probes that differ in their times or in what they
//          expect.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "core/base/result.hpp"
#include "core/base/snapshot.hpp"
#include "core/fleet/probe_try.hpp"
#include "core/net/event.hpp"
#include "core/net/loop.hpp"
#include "core/rules/probe_spec.hpp"

namespace sluice::fleet {

// How long successful tries took, connect to the last byte that was read.
struct ProbeDelays {
    std::uint64_t tries = 0;
    std::uint64_t min_us = 0;
    std::uint64_t avg_us = 0;
    std::uint64_t max_us = 0;
};

class ProbeState {
public:
    explicit ProbeState(rules::ProbeSpec spec = {}, std::uint64_t id = 0)
        : spec_(std::move(spec)), id_(id) {}

    // With address and port.
    const rules::ProbeSpec& spec() const noexcept { return spec_; }
    bool is_up() const noexcept { return is_up_.load(std::memory_order_relaxed); }
    // Why the last try failed, or could not be made; empty after a success.
    std::string reason() const { return *reason_.get(); }

    // Read while tries go on, so its parts need not agree to the last one.
    ProbeDelays delays() const noexcept;
    // When it last went up or down, since the epoch; 0 = never.
    std::uint64_t changed_us() const noexcept {
        return changed_us_.load(std::memory_order_relaxed);
    }

private:
    friend class Prober;
    void measured(std::uint64_t us) noexcept;  // the prober's loop only
    void turn(bool is_up) noexcept;

    const rules::ProbeSpec spec_;
    const std::uint64_t id_;  // of the prober, never reused
    std::atomic<bool> is_up_{true};
    std::atomic<bool> is_over_{false};  // nobody is to probe any more
    std::uint32_t failures_ = 0;        // consecutive; the prober's loop only
    std::atomic<std::uint64_t> changed_us_{0};
    std::atomic<std::uint64_t> tries_{0};
    std::atomic<std::uint64_t> sum_us_{0};
    std::atomic<std::uint64_t> min_us_{0};
    std::atomic<std::uint64_t> max_us_{0};
    Snapshot<std::string> reason_;
};

using ProbeStatePtr = std::shared_ptr<ProbeState>;

class Prober {
public:
    Prober();
    ~Prober();
    Prober(const Prober&) = delete;
    Prober& operator=(const Prober&) = delete;

    Status start();
    void stop();

    // The state of a probe, started at the first call; null when nothing is to be probed. `spec` is
    // whole: address and port filled in. It ends when nobody holds the state, or with retain().
    // `before` is what another probe knew of the endpoint: a new one starts from there.
    ProbeStatePtr probe(const rules::ProbeSpec& spec, const ProbeState* before = nullptr);
    // Ends the probes that are not among these, in the midst of a try too, whoever still holds
    // their state: a request that began before an edit must not keep an endpoint probed.
    void retain(const std::set<ProbeStatePtr>& in_force);

private:
    static constexpr std::size_t kMaxTries = 256;

    // A try's right to ask; given back when it goes away.
    class Turn;
    // A running probe's entry in endings_.
    class Running;

    net::Task<void> run(std::uint64_t id, rules::ProbeSpec spec, std::weak_ptr<ProbeState> weak);
    net::Task<Status> take_turn(const rules::ProbeSpec& question, net::Cancel& ended, Turn& out);
    static bool is_wanted(const std::weak_ptr<ProbeState>& weak) noexcept;
    static void settle(ProbeState& state, const Result<ProbeAnswer>& result);

    std::unique_ptr<net::Loop> loop_;
    std::jthread thread_;
    std::mutex mu_;
    std::map<rules::ProbeSpec, std::weak_ptr<ProbeState>> probes_;  // guarded by mu_
    std::uint64_t next_id_ = 1;                                     // guarded by mu_

    // The rest belongs to the loop.
    std::optional<net::TlsClient> tls_;
    std::unique_ptr<net::Event> turn_free_;
    std::set<rules::ProbeSpec> asking_;              // questions that wait for their answer
    std::map<std::uint64_t, net::Cancel*> endings_;  // of running probes, by id
};

}  // namespace sluice::fleet
