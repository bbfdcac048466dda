// Where a rule's KV events are published again (kvRepublish), and where they are taken from instead
// of the engines (kvEventsFrom).
//
// Threads: any.
// Errors:  parse_publisher() and is_event_source() say what is no address; nothing is repaired.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/rules/rule.hpp"

namespace sluice::rules {

struct PublishAt {
    std::string host;        // "*", "10.0.0.1", "[fd00::1]"; numeric and canonical
    std::uint16_t port = 0;  // never 0
    bool operator==(const PublishAt&) const = default;
};

struct EventAddresses {
    std::optional<PublishAt> republish;  // only where the rule has events: kvExactMode
    std::string events_from;             // base URL without a final slash; empty = the engines
};

// "tcp://HOST:PORT"
std::optional<PublishAt> parse_publisher(std::string_view text);
// "http://IP:PORT", perhaps with a path: the management interface of a gateway.
bool is_event_source(std::string_view text);

// Of an accepted rule. Reads its values in force, so it is for the control thread.
EventAddresses event_addresses(const Rule& rule);

}  // namespace sluice::rules
