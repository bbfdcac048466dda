// Active health probes: one prober a daemon, one probe for each (address, kind, port, path, times),
// shared by every rule that asks for the same.
//
// A probe starts at once. The endpoint is eligible until a result says otherwise: `retries`
// consecutive failures take it out, one success brings it back.
//
// Threads: Prober owns one ("sluice-probe") with a loop of its own. reconcile() control;
//          ProbeState any.
// Units:   interval in seconds; one try takes at most min(5 s, interval).
// Source:  management contract, health probing (NEW column): http is GET, 200 means healthy, no
//          redirects; tcp is a completed connect.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/snapshot.hpp"
#include "core/net/address.hpp"
#include "core/net/loop.hpp"
#include "core/rules/rule.hpp"

namespace sluice::fleet {

// How long successful tries took, connect to the last byte that was read.
struct ProbeDelays {
    std::uint64_t tries = 0;
    std::uint64_t min_us = 0;
    std::uint64_t avg_us = 0;
    std::uint64_t max_us = 0;
};

// What is probed, and how.
struct ProbeTarget {
    std::string host;  // numeric
    std::uint16_t port = 0;
    rules::ProbeSpec spec;
};

class ProbeState {
public:
    explicit ProbeState(ProbeTarget target = {}) : target_(std::move(target)) {}

    const ProbeTarget& target() const noexcept { return target_; }
    bool is_up() const noexcept { return is_up_.load(std::memory_order_relaxed); }
    // Why the last try failed; empty after a success.
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

    const ProbeTarget target_;
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

    // The state of a probe, started at the first call. It ends when nobody holds the state, or with
    // retain(). `before` is what another probe knew of the endpoint: a new one starts from there.
    ProbeStatePtr probe(const rules::EndpointSpec& endpoint, const rules::ProbeSpec& spec,
                        const ProbeState* before = nullptr);
    // Ends the probes that are not among these, whoever still holds their state: a request that
    // began before an edit must not keep an endpoint probed.
    void retain(const std::set<ProbeStatePtr>& in_force);

private:
    struct Target {
        net::Address address;
        std::string host;  // for the Host field
        rules::ProbeSpec spec;
    };
    using Key =
        std::tuple<std::string, std::uint16_t, int, std::string, std::uint32_t, std::uint32_t>;

    net::Task<void> run(Target target, std::weak_ptr<ProbeState> state);
    net::Task<Status> try_once(const Target& target);
    static bool is_wanted(const std::weak_ptr<ProbeState>& weak) noexcept;
    static void settle(ProbeState& state, const Target& target, const Status& result);

    std::unique_ptr<net::Loop> loop_;
    std::jthread thread_;
    std::mutex mu_;
    std::map<Key, std::weak_ptr<ProbeState>> probes_;  // guarded by mu_
};

}  // namespace sluice::fleet
