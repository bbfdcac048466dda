// The engine plugins that a verb asks, loaded as the daemon loads them. Nothing is attached: what
// needs an endpoint is not asked here.
//
// Threads: main; those of the plugin runtime stand by.
// Errors:  NotFound with the folders that were searched; else why the plugin cannot be made.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/plugin/engine.hpp"
#include "core/plugin/registry.hpp"
#include "core/plugin/runtime.hpp"

namespace sluice::cli {

class Engines {
public:
    // The folders where sluiced would look when it was installed with this program, then `more`.
    static std::vector<std::string> folders(std::span<const std::string> more);

    explicit Engines(std::vector<std::string> folders);
    ~Engines();

    Status start();
    // An instance with nothing configured, kept; by id or alias.
    Result<const plugin::EngineInstance*> find(const std::string& name);

private:
    // Nobody listens: nothing is watched.
    class Silence final : public plugin::EngineSink {
    public:
        void load(const sluice_load&) override {}
        void health(std::uint64_t, std::uint32_t, std::string_view) override {}
        void facts(const sluice_engine_facts&) override {}
        void models(std::uint64_t, sluice_array) override {}
        sluice_status apply(const sluice_kv_batch&, std::uint32_t*, sluice_error*) override {
            return SLUICE_E_NOT_FOUND;
        }
        void reset(std::uint64_t, std::uint32_t) override {}
        void report(const sluice_kv_report&) override {}
    };

    const std::vector<std::string> folders_;
    Silence sink_;
    plugin::Runtime runtime_;
    plugin::Registry registry_;
    std::map<std::string, Result<std::shared_ptr<plugin::EngineInstance>>> made_;
};

}  // namespace sluice::cli
