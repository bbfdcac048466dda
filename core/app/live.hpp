// Answers what the management interface asks about the running gateway.
//
// Threads: any number of the interface's at once; reads snapshots only.
#pragma once
#include <atomic>
#include <string>

#include "core/admin/providers.hpp"
#include "core/flow/conductor.hpp"
#include "core/flow/shared.hpp"
#include "core/plugin/registry.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::app {

// How the start went.
struct Boot {
    bool is_database_found = false;
    std::string set_aside;  // where a damaged database was moved
};

class Live final : public admin::Providers {
public:
    Live(flow::Shared& shared, flow::Conductor& conductor, plugin::Registry& registry,
         rules::RuleBook& book, Boot boot);

    // From now on not ready.
    void drain() noexcept { is_draining_.store(true, std::memory_order_relaxed); }

    admin::Readiness ready() override;
    std::string plugins_json() override;
    std::string flows_json(const admin::FlowFilter& filter) override;
    Result<std::string> explain(std::string_view json) override;
    Result<admin::Inventory> inventory(const rules::RulePtr& rule,
                                       const rules::EndpointSpec& endpoint,
                                       std::size_t limit) override;
    admin::RuleLive rule_status(const rules::RulePtr& rule) override;

private:
    route::ServicePtr service_of(const rules::RulePtr& rule) const;

    flow::Shared& shared_;
    flow::Conductor& conductor_;
    plugin::Registry& registry_;
    rules::RuleBook& book_;
    const Boot boot_;
    std::atomic<bool> is_draining_{false};
};

}  // namespace sluice::app
