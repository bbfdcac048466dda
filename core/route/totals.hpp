// What one rule and each of its endpoints have carried since the gateway started. They outlive
// edits of the rule.
//
// Threads: any (atomics). A request costs a rule four additions and an endpoint two.
// Units:   requests; bytes as they cross the client's connection, heads included; *_us since the
//          epoch.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/metrics.hpp"

namespace sluice::route {

struct alignas(64) EndpointTotals {
    std::atomic<std::uint64_t> requests{0};  // sent there, every attempt
    std::atomic<std::uint64_t> bytes{0};     // of requests it answered, both directions
    // loxilb_pd_kv_tier15_*; here, so that they go with the endpoint.
    metrics::Counter kv_hits, kv_spills, kv_cold_seeds;
};

struct alignas(64) RuleTotals {
    std::atomic<std::uint64_t> active{0};     // requests in flight
    std::atomic<std::uint64_t> requests{0};   // that met the rule
    std::atomic<std::uint64_t> bytes_in{0};   // from clients
    std::atomic<std::uint64_t> bytes_out{0};  // to clients
    metrics::Counter kv_zero_hits;            // loxilb_pd_kv_zero_hit_watchdog_total
    const std::uint64_t since_us = wall_us();
};

struct Totals {
    std::shared_ptr<RuleTotals> rule;
    std::vector<std::shared_ptr<EndpointTotals>> endpoints;  // by pool index
};

// Counts one request as in flight for as long as it lives.
class InFlight {
public:
    InFlight() = default;
    explicit InFlight(std::shared_ptr<RuleTotals> totals) noexcept : totals_(std::move(totals)) {
        if (totals_) {
            totals_->active.fetch_add(1, std::memory_order_relaxed);
            totals_->requests.fetch_add(1, std::memory_order_relaxed);
        }
    }
    ~InFlight() { end(); }
    InFlight(InFlight&& other) noexcept : totals_(std::move(other.totals_)) {}
    InFlight& operator=(InFlight&& other) noexcept {
        if (this != &other) {
            end();
            totals_ = std::move(other.totals_);
        }
        return *this;
    }
    void carried(std::uint64_t in_bytes, std::uint64_t out_bytes) const noexcept {
        if (totals_) {
            totals_->bytes_in.fetch_add(in_bytes, std::memory_order_relaxed);
            totals_->bytes_out.fetch_add(out_bytes, std::memory_order_relaxed);
        }
    }
    void end() noexcept {
        if (totals_) {
            totals_->active.fetch_sub(1, std::memory_order_relaxed);
            totals_.reset();
        }
    }

private:
    std::shared_ptr<RuleTotals> totals_;
};

}  // namespace sluice::route
