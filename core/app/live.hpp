// Answers what the management interface asks about the running gateway.
//
// Threads: any number of the interface's at once; reads snapshots only.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/admin/providers.hpp"
#include "core/app/settings.hpp"
#include "core/flow/conductor.hpp"
#include "core/flow/shared.hpp"
#include "core/flow/worker.hpp"
#include "core/plugin/registry.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::app {

// How the start went.
struct Boot {
    bool is_database_found = false;
    std::string set_aside;  // where a damaged database was moved
};

using Workers = std::vector<std::unique_ptr<flow::Worker>>;

class Live final : public admin::Providers {
public:
    Live(flow::Shared& shared, flow::Conductor& conductor, plugin::Registry& registry,
         rules::RuleBook& book, const Workers& workers, const Settings& settings, Boot boot);

    // From now on not ready.
    void drain() noexcept { is_draining_.store(true, std::memory_order_relaxed); }
    // A reload went well and these are in force, or it was refused and why.
    void reloaded(const Settings& settings);
    void reload_refused(const std::string& why);

    admin::Readiness ready() override;
    std::vector<admin::Capability> capabilities() override;
    std::string diagnostics_json() override;
    std::string state_file() override { return settings_.get()->state_file; }
    std::uint64_t in_flight() override;
    void refuse_new_requests(bool is_refusing) override;
    std::string plugins_json() override;
    std::string flows_json(const admin::FlowFilter& filter) override;
    Result<std::string> explain(std::string_view json) override;
    Result<admin::Inventory> inventory(const rules::RulePtr& rule,
                                       const rules::EndpointSpec& endpoint,
                                       std::size_t limit) override;
    std::string event_sources(const rules::RulePtr& rule,
                              const rules::EndpointSpec& endpoint) override;
    admin::RuleLive rule_status(const rules::RulePtr& rule) override;
    // Metrics that are judgements of rules.
    void scrape(std::vector<metrics::Family>& out);
    std::vector<admin::HealthRow> health() override;
    Status can_probe(const rules::ProbeSpec& probe) override;
    std::vector<admin::AddressLoad> address_loads() override;
    std::shared_ptr<admin::StreamSource> flow_stream(const admin::FlowFilter& filter,
                                                     std::uint64_t every) override;

private:
    route::ServicePtr service_of(const rules::RulePtr& rule) const;
    // Of a rule's name; a number or an id stays as it is.
    std::string rule_id_of(const std::string& wanted) const;

    flow::Shared& shared_;
    flow::Conductor& conductor_;
    plugin::Registry& registry_;
    rules::RuleBook& book_;
    const Workers& workers_;
    Snapshot<Settings> settings_;
    const Boot boot_;
    std::atomic<bool> is_draining_{false};

    struct Reloads {
        std::uint64_t taken = 0;
        std::uint64_t refused = 0;
        std::string last_refusal;  // empty when the last one went well
    };
    std::mutex mu_;
    Reloads reloads_;  // guarded by mu_
};

}  // namespace sluice::app
