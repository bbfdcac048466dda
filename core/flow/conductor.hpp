// Turns the table of rules into a running data plane, and keeps the two in step.
//
// For every change: plugins are asked, the VIP is bound, and only then is the rule stored. (The key
// file was judged before; at a start it may be gone: then the rule is in force and its requests are
// refused until the file can be read.) After the swap everything is reconciled by identity, so that
// what an edit does not concern goes on undisturbed:
//
//   what                              is the same as long as                     kept in
//   Endpoint (load, health, leases)   its address and port are                   endpoints_
//   probe                             address and the probe's own fields are     Prober
//   attachment (subscription, load)   endpoint, engine instance, watch and ranks Kept
//   KvPlane (inventory)               the rule has kvExactMode; by endpoint id   Kept
//   PdState (sessions, queues, ...)   the rule is a P/D rule; by endpoint id     Kept
//   engine and selector instance      the plugin's part of the rule is           PluginBook
//   selector's state (a cursor)       its instance is                            the instance
//   Breaker                           rule and endpoint are, and cb_enable       Kept
//   Occupancy, BackendKey             the rule is; the path is                   Kept
//   listener                          some rule has the VIP                      Listeners
//   published KV events, their        the rule republishes; by endpoint and      Republisher
//     sequence numbers                  rank
//   upstream connections              the address is                             the workers
//
// Requests find their Service once; one under way goes on with what it has.
//
// Threads: control, one call at a time (RuleBook serialises changes; tick() takes the same lock).
// Owns:    live endpoints, the block indexes, plugin instances and attachments of the rules.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/fleet/probe.hpp"
#include "core/flow/engine_events.hpp"
#include "core/flow/listeners.hpp"
#include "core/flow/plugin_book.hpp"
#include "core/flow/republisher.hpp"
#include "core/flow/shared.hpp"
#include "core/flow/worker.hpp"
#include "core/rules/health_objects.hpp"
#include "core/rules/host_states.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::flow {

class Conductor final : public rules::Hooks {
public:
    Conductor(Shared& shared, std::vector<std::unique_ptr<Worker>>& workers,
              plugin::Registry& registry, plugin::Runtime& runtime, EngineEvents& events,
              fleet::Prober& prober);
    ~Conductor() override;

    std::optional<rules::Refusal> prepare(const rules::RulePtr& next,
                                          const rules::RulePtr& previous,
                                          std::vector<rules::Warning>& warnings) override;
    void abandoned(const rules::RulePtr& next) override;
    void applied(const std::shared_ptr<const rules::Table>& table) override;
    std::vector<std::string> engines() const override;
    std::vector<std::string> selectors() const override;

    // Host states and health objects.
    void setting(std::string_view name, std::string_view value) override;
    rules::HostStates host_states() const;
    struct Watched {
        rules::HealthObject object;
        fleet::ProbeStatePtr probe;  // null: of no type
    };
    std::vector<Watched> health_objects() const;
    // Every endpoint that is alive, by address: of rules in force, and (false) those that only
    // finish what they have.
    std::vector<std::pair<fleet::EndpointPtr, bool>> addresses() const;
    bool is_bound(const rules::ListenAddress& at) const;

    // Every few seconds: binds VIPs and publishers that could not be bound at start, and looks
    // whether the files of backend keys have changed; breakers whose time is over are half open.
    void tick();
    // VIPs of rules that are not bound, for readiness: "10.0.0.1:8080: address in use".
    std::vector<std::string> unbound() const;
    // Whose KV events are published again, and where.
    const Republisher& republisher() const noexcept { return republisher_; }

private:
    // What outlives edits of one rule.
    struct Kept {
        rules::RulePtr rule;
        route::ServicePtr service;
        std::shared_ptr<route::KvPlane> plane;  // null without kvExactMode
        std::shared_ptr<route::PdState> pd;     // null without pd_disagg_mode
        EnginePtr engine;
        std::string events_from;  // kvEventsFrom
        EnginePtr reader;         // of them, where the engine's own plugin does not read them
        // What the attachments below were asked for with; when it changes they are made anew.
        std::uint32_t ranks = 0;
        std::shared_ptr<route::RuleTotals> totals;
        std::map<std::uint64_t, std::shared_ptr<route::EndpointTotals>>
            endpoint_totals;  // by EndpointSpec::id
        struct Attached {
            plugin::AttachmentPtr attachment;
            std::uint32_t watch = 0;
        };
        using Attachments = std::map<std::uint64_t, Attached>;  // by endpoint id
        Attachments attachments;
        Attachments read_attachments;                         // the reader's
        std::map<std::uint64_t, fleet::BreakerPtr> breakers;  // by EndpointSpec::id
        route::OccupancyPtr occupancy = std::make_shared<route::Occupancy>();
        fleet::BackendKeyPtr key;  // null without backend_auth_file
        bool is_key_lost = false;
    };

    fleet::EndpointPtr endpoint(const rules::EndpointSpec& spec);
    std::shared_ptr<route::Service> make_service(const rules::RulePtr& rule, Kept& kept);
    std::shared_ptr<const route::Selector> selector_of(const rules::RulePtr& rule,
                                                       const fleet::Pool& pool);
    void take_engine(const rules::Rule& rule, Kept& kept, route::Service& service);
    void take_plane(const rules::Rule& rule, Kept& kept, route::Service& service);
    static void take_key(const rules::Rule& rule, Kept& kept);
    static void refresh_key(Kept& kept, bool is_forced);
    static fleet::BreakerPtr breaker_of(const rules::Rule& rule, const rules::EndpointSpec& spec,
                                        Kept& kept);
    static route::Totals totals_of(const rules::Rule& rule, Kept& kept);
    std::optional<rules::Refusal> check_event_source(const rules::Rule& next) const;
    void take_reader(const rules::Rule& rule, Kept& kept);
    static void take_pd(const rules::Rule& rule, Kept& kept, route::Service& service);
    // Brings `held` in line with `infos`; an endpoint that `wanted` does not name is not attached.
    static void attach_all(const EnginePtr& engine, const std::vector<plugin::EndpointInfo>& infos,
                           const std::map<std::uint64_t, std::uint32_t>& wanted,
                           Kept::Attachments& held);
    void attach(const rules::Rule& rule, const fleet::Pool& pool, Kept& kept);
    // What adapters see of the rule's endpoints, by pool index.
    static std::vector<plugin::EndpointInfo> infos_of(const Kept& kept);
    void hand_over_routes();
    // Ends the probes that neither a rule nor a health object has.
    void retain_probes(const Directory& directory);
    void publish(const std::shared_ptr<const Directory>& directory);

    Shared& shared_;
    std::vector<std::unique_ptr<Worker>>& workers_;
    plugin::Registry& registry_;
    plugin::Runtime& runtime_;
    EngineEvents& events_;
    fleet::Prober& prober_;
    PluginBook plugins_;
    Republisher republisher_;

    mutable std::mutex mu_;
    Listeners listeners_;                 // guarded by mu_
    std::map<std::uint32_t, Kept> kept_;  // guarded by mu_, by rule number
    std::map<std::pair<std::string, std::uint16_t>, std::weak_ptr<fleet::Endpoint>>
        endpoints_;                       // guarded by mu_
    std::uint64_t next_endpoint_id_ = 1;  // guarded by mu_
    rules::HostStates host_states_;       // guarded by mu_
    std::vector<Watched> watched_;        // guarded by mu_
};

}  // namespace sluice::flow
