// What a request meets at its rule before it is routed: who may come, whether the rule is switched
// on, and how many it takes at a time.
//
// Threads: any. A Gate is immutable; Occupancy is one counter over all workers that outlives edits
//          of its rule.
// Errors:  Refusal: source_not_allowed 403, rule_disabled 503, connection_limit 503.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/net/prefix.hpp"
#include "core/route/facts.hpp"
#include "core/rules/rule.hpp"

namespace sluice::route {

// Requests of a rule that are under way.
class Occupancy {
public:
    std::uint32_t held() const noexcept { return held_.load(std::memory_order_relaxed); }

private:
    friend class Ticket;
    std::atomic<std::uint32_t> held_{0};
};

using OccupancyPtr = std::shared_ptr<Occupancy>;

// One request's place in its rule. Given back exactly once, on every way out.
class Ticket {
public:
    Ticket() = default;
    ~Ticket() { release(); }
    Ticket(Ticket&& other) noexcept : from_(std::move(other.from_)) {}
    Ticket& operator=(Ticket&& other) noexcept {
        if (this != &other) {
            release();
            from_ = std::move(other.from_);
        }
        return *this;
    }
    // Not held when `limit` are taken already; 0 = no limit.
    static Ticket take(const OccupancyPtr& from, std::uint32_t limit) noexcept;
    bool is_held() const noexcept { return from_ != nullptr; }
    void release() noexcept {
        if (from_) {
            from_->held_.fetch_sub(1, std::memory_order_relaxed);
            from_.reset();
        }
    }

private:
    OccupancyPtr from_;
};

// The networks of `allowed`; a text that is none admits nobody.
std::vector<net::Prefix> read_sources(const std::vector<std::string>& allowed);
// `peer` as "10.0.0.7:41022" or "[fd00::7]:41022".
bool is_in(const std::vector<net::Prefix>& sources, std::string_view peer) noexcept;
Refusal source_refusal();

struct Gate {
    bool is_restricted = false;
    std::vector<net::Prefix> sources;
    OccupancyPtr occupancy = std::make_shared<Occupancy>();

    // Fills `place`, or says why the request may not go on.
    std::optional<Refusal> enter(const rules::Rule& rule, std::string_view peer,
                                 Ticket& place) const;
};

}  // namespace sluice::route
