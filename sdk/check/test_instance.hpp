// One plugin of a loaded file, asked and run under a ScriptedHost.
//
// Threads: one.
#pragma once
#include <sluice/sdk/plugin.h>

#include <optional>
#include <string>
#include <string_view>

#include "sdk/check/loaded.hpp"
#include "sdk/check/schema.hpp"
#include "sdk/check/scripted_host.hpp"

namespace sluice::check {

// What check() answered, as one text: equal texts are equal answers.
struct Opinion {
    bool is_refused = false;
    std::string text;
    std::vector<std::pair<std::string, std::string>> effective;
    std::string problem;  // of the contract; empty = none
};
Opinion ask(const Loaded& plugin, const sluice_plugin_desc& desc, std::string_view config,
            std::string_view previous = {});

// The configuration as create() gets it: effective values and defaults filled in. Empty when the
// plugin's check refuses it.
std::optional<std::string> complete(const Loaded& plugin, const sluice_plugin_desc& desc,
                                    const schema::Schema& schema, std::string_view config);

class TestInstance {
public:
    TestInstance(const Loaded& plugin, const sluice_plugin_desc& desc)
        : plugin_(plugin), desc_(desc) {}
    ~TestInstance() { end(); }
    TestInstance(const TestInstance&) = delete;
    TestInstance& operator=(const TestInstance&) = delete;

    // Empty = fine; else what went wrong, as a sentence about create() or activate().
    std::string create(std::string_view config);
    std::string activate();
    // deactivate() when active, leftovers judged, destroy().
    void end();

    ScriptedHost& host() { return host_; }
    sluice_instance* self() const { return self_; }
    // Of the last create() or activate().
    sluice_status status() const { return status_; }

private:
    const Loaded& plugin_;
    const sluice_plugin_desc& desc_;
    ScriptedHost host_;
    sluice_instance* self_ = nullptr;
    sluice_status status_ = SLUICE_OK;
};

}  // namespace sluice::check
