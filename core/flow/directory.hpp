// The rules in force with everything needed to serve them, as one immutable value.
//
// Threads: any; swapped as a whole. A request keeps a reference to its service only; of what an
//          edit took out of force that keeps memory alive, but no probe and no subscription.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "core/http/server.hpp"
#include "core/route/service.hpp"
#include "core/rules/table.hpp"

namespace sluice::flow {

// Until the rule of a request is known, the largest limits of the listener's rules hold.
struct ListenerLimits {
    http::ServerLimits server;
    std::size_t max_body_bytes = 64U << 20U;
    // Every rule names who may come: others are turned away before they are read.
    bool is_restricted = false;
    std::vector<net::Prefix> sources;  // of all rules
};

struct Directory {
    std::shared_ptr<const rules::Table> table = std::make_shared<const rules::Table>();
    std::vector<route::ServicePtr> services;  // as Table::rules()
    std::map<rules::ListenAddress, ListenerLimits> limits;
};

// The rule of that number; null when there is none. Looks at every rule.
route::ServicePtr service_of(const Directory& directory, std::uint32_t rule_number);

ListenerLimits limits_of(const rules::Table& table, const rules::ListenAddress& listener);

}  // namespace sluice::flow
