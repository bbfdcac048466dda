// Which rules publish their endpoints' KV events again, and where: kvRepublish.
//
// Endpoint ep_idx i, rank r of a rule at tcp://HOST:P is published at P + 2*R*i + r, its replay R
// ports higher; R is the rule's kvDpRankCount. A rank beyond R gets ports from the system. Feeds
// and their sequence numbers belong to (rule, endpoint, rank): addresses move, they do not.
//
// Threads: prepare(), abandon(), apply(), retain(), tick() control, one call at a time; the rest
//          any. Feeds ask for ports of new ranks from the event thread.
// Errors:  prepare() refuses ports past 65535 and what cannot be bound; an address of a rule in
//          force that cannot be bound is logged once and tried again with each tick().
// Limits:  EventLog's for each stream.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/metrics.hpp"
#include "core/flow/event_feed.hpp"
#include "core/flow/event_publisher.hpp"
#include "core/rules/event_addresses.hpp"
#include "core/rules/refusal.hpp"
#include "core/rules/rule.hpp"

namespace sluice::flow {

struct RepublishPorts {
    std::uint32_t pub = 0;
    std::uint32_t replay = 0;
    bool operator==(const RepublishPorts&) const = default;
};
RepublishPorts republish_ports(std::uint16_t first, std::uint32_t ranks, std::uint32_t ep_idx,
                               std::uint32_t rank) noexcept;

class Republisher {
public:
    // Binds what the rule does not have yet.
    std::optional<rules::Refusal> prepare(const rules::Rule& next,
                                          std::vector<rules::Warning>& warnings);
    void abandon(const rules::Rule& next);
    // The rule is in force.
    void apply(const rules::Rule& rule);
    // Rules with other numbers are gone.
    void retain(const std::set<std::uint32_t>& numbers);
    void tick();

    // Null where the rule does not republish; by EndpointSpec::id.
    EventFeedPtr feed(std::uint32_t rule, std::uint64_t endpoint) const;
    // "rule 7: tcp://10.0.0.1:5600: Address already in use"
    std::vector<std::string> unbound() const;
    // As vLLM's /kv_event_sources answers: an object by rank; "{}" where nothing is published.
    std::string sources_json(std::uint32_t rule, std::uint64_t endpoint) const;
    void scrape(std::vector<metrics::Family>& out) const;

private:
    struct Stream {
        EventLogPtr log;
        std::string host;
        RepublishPorts ports;  // asked for; 0 = from the system
        EventPublisher::OutletPtr outlet;
        std::string pub, replay;  // addresses, while there is an outlet
        std::string why;          // there is none
    };
    struct OfEndpoint {
        std::uint32_t ep_idx = 0;
        EventFeedPtr feed;
        std::map<std::uint32_t, Stream> streams;  // by rank
    };
    struct OfRule {
        std::string host;
        std::map<std::uint64_t, OfEndpoint> endpoints;  // by EndpointSpec::id
    };
    using StreamKey = std::pair<std::uint64_t, std::uint32_t>;  // EndpointSpec::id, rank
    using Prepared = std::map<StreamKey, EventPublisher::Sockets>;

    EventFeedPtr make_feed(std::uint32_t rule, const rules::EndpointSpec& spec,
                           std::uint64_t max_blocks);
    // [event] Ports from the system for a rank beyond those the rule names.
    void open_rank(std::uint32_t rule, std::uint64_t endpoint, std::uint32_t rank,
                   const EventLogPtr& log);
    void close(Stream& stream);
    // Binds a stream that has no outlet, or takes `ready`.
    void open(std::uint32_t rule, std::uint64_t endpoint, std::uint32_t rank,
              std::optional<EventPublisher::Sockets> ready);

    EventPublisher publisher_;
    mutable std::mutex mu_;
    std::map<std::uint32_t, OfRule> rules_;       // guarded by mu_, by number
    std::map<std::uint32_t, Prepared> prepared_;  // control
};

}  // namespace sluice::flow
