// What engine adapters learn, brought to the endpoints and the rules concerned.
//
// Threads: the EngineSink functions event. set_routes() control (it hands over to the event
//          thread); metric sources any.
// Limits:  kMaxLearnedRanks inventories an endpoint that its engine's reports ask for.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/fleet/endpoint.hpp"
#include "core/flow/event_feed.hpp"
#include "core/plugin/engine_sink.hpp"
#include "core/route/kv_plane.hpp"
#include "core/route/pd_state.hpp"

namespace sluice::flow {

// Who hears of one endpoint.
struct EngineRoute {
    fleet::EndpointPtr endpoint;
    std::vector<std::shared_ptr<route::KvPlane>> planes;  // of rules with kvExactMode
    std::vector<std::shared_ptr<route::PdState>> pairs;   // of P/D rules
    std::uint32_t ranks = 1;                              // that rules declare
    // What the engine showed; outlives edits of the rules.
    std::uint32_t learned_ranks = 1;
    bool is_stolen = false;             // another consumer takes its events
    std::vector<EventFeedPtr> feeds{};  // of rules with kvRepublish
    // Its events come from another gateway, which knows better than facts when they begin anew.
    bool is_read_elsewhere = false;
};

using EngineRoutes = std::map<std::uint64_t, EngineRoute>;  // by endpoint id

inline constexpr std::uint32_t kMaxLearnedRanks = 64;

class EngineEvents final : public plugin::EngineSink {
public:
    // Called on the event thread when the models of an endpoint are known or changed, so that
    // tokenizers can be loaded before a request needs them.
    using OnModels = std::function<void(const std::vector<fleet::Model>&)>;
    explicit EngineEvents(OnModels on_models);

    // [event] Attaches endpoints to planes that are new to them and detaches those that are gone.
    void set_routes(EngineRoutes routes);

    void load(const sluice_load& load) override;
    void health(std::uint64_t endpoint, std::uint32_t state, std::string_view why) override;
    void facts(const sluice_engine_facts& facts) override;
    void models(std::uint64_t endpoint, sluice_array models) override;
    sluice_status apply(const sluice_kv_batch& batch, std::uint32_t* unplaced,
                        sluice_error* err) override;
    void reset(std::uint64_t endpoint, std::uint32_t dp_rank) override;
    void report(const sluice_kv_report& report) override;

private:
    EngineRoute* find(std::uint64_t endpoint);
    static void count(EngineRoute& route, const sluice_kv_report& report);

    const OnModels on_models_;
    EngineRoutes routes_;  // event thread only
};

}  // namespace sluice::flow
