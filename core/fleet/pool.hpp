// The endpoints of one rule with what is needed to choose among them.
//
// Threads: any. A Pool is immutable and replaced as a whole when the rule is edited; what changes
//          while it lives is inside Endpoint and ProbeState.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/fleet/breaker.hpp"
#include "core/fleet/endpoint.hpp"
#include "core/fleet/probe.hpp"
#include "core/rules/rule.hpp"

namespace sluice::fleet {

// Why an endpoint may not be chosen now; the words are those of receipts.
// Disabled is what an operator took out; to a request it is down.
enum class Excluded : std::uint8_t { No, Down, Disabled, Draining, Open, Standby, Model };
std::string_view to_string(Excluded why) noexcept;

struct Member {
    rules::EndpointSpec spec;
    EndpointPtr endpoint;
    ProbeStatePtr probe;      // null: not monitored
    BreakerPtr breaker = {};  // null: the rule has none
};

class Pool {
public:
    explicit Pool(std::vector<Member> members);

    const std::vector<Member>& members() const noexcept { return members_; }
    std::size_t size() const noexcept { return members_.size(); }
    const Member& operator[](std::size_t i) const noexcept { return members_[i]; }

    // Some member carries traffic only while the others are out. excluded() does not say so of one:
    // that depends on the request, which may have tried the others in vain.
    bool has_backups() const noexcept { return has_backups_; }

    // `served_model`: the name that will be sent upstream; empty = any. An endpoint whose models
    // are not known serves every model.
    Excluded excluded(std::size_t i, std::string_view served_model, std::uint64_t now) const;
    // Why a probe, the adapter or traffic took the endpoint out, for read-back.
    std::string reason(std::size_t i, std::uint64_t now) const;
    // When a breaker lets somebody try again, at least a second: for who was turned away.
    std::uint32_t retry_after_sec(std::uint64_t now) const;

private:
    std::vector<Member> members_;
    bool has_backups_;
};

using PoolPtr = std::shared_ptr<const Pool>;

}  // namespace sluice::fleet
