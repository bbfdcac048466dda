// The parts of the running gateway, in the order in which they start and stop.
//
// Threads: main. The parts have their own.
// Errors:  start() says what could not be started and leaves nothing running.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/admin/api_server.hpp"
#include "core/app/live.hpp"
#include "core/app/settings.hpp"
#include "core/flow/conductor.hpp"
#include "core/flow/shared.hpp"
#include "core/flow/worker.hpp"
#include "core/plugin/registry.hpp"
#include "core/plugin/runtime.hpp"
#include "state/state.hpp"

namespace sluice::app {

class Daemon {
public:
    explicit Daemon(Settings settings);
    ~Daemon();
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    Status start();
    // Every few seconds while running.
    void tick();
    // Takes over what may change while running and names what needs a restart; tokenizers are read
    // anew. What is wrong with `next` is logged and counted, and changes nothing.
    void reload(const Settings& next);
    // The same for settings that cannot even be read.
    void reload_refused(const std::string& why);
    // Refuses new work, lets requests finish for at most the drain time-out, ends.
    void stop();

private:
    Status start_workers();
    Status open_state();
    void start_plugins();
    Status resume_maintenance();
    void take_over(Settings next);

    Settings settings_;
    std::unique_ptr<state::Store> store_;
    Boot boot_;
    std::unique_ptr<flow::Shared> shared_;
    std::vector<std::unique_ptr<flow::Worker>> workers_;
    std::unique_ptr<plugin::Registry> registry_;
    std::unique_ptr<flow::EngineEvents> events_;
    std::unique_ptr<plugin::Runtime> runtime_;
    std::unique_ptr<fleet::Prober> prober_;
    std::unique_ptr<flow::Conductor> conductor_;
    std::unique_ptr<rules::RuleBook> book_;
    std::unique_ptr<Live> live_;
    std::unique_ptr<admin::ApiServer> api_;
    std::uint64_t scrape_source_ = 0;
    bool is_started_ = false;
};

}  // namespace sluice::app
