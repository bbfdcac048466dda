// One plugin of a loaded file: its description, its schemas and its opinion of a configuration.
//
// Threads: control for propose(); the rest any (immutable).
// Source:  order of a change, SDK contract: schema, then check(), then effective values and
//          defaults are filled in, then create().
// Limits:  64 findings and 64 effective values from one check(), 1 KiB a text.
#pragma once
#include <sluice/sdk/plugin.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plugin/descriptor.hpp"
#include "core/plugin/schema.hpp"

namespace sluice::plugin {

// What became of a proposed configuration.
struct Verdict {
    std::vector<Finding> findings;  // any Refused or Immutable refuses it
    // Field and JSON value in force where the operator gave none: the plugin's own words first,
    // then defaults of its schema.
    std::vector<std::pair<std::string, std::string>> effective;
    std::string config;  // complete, for create(); empty when refused

    bool is_refused() const noexcept { return plugin::is_refused(findings); }
};

class Plugin {
public:
    // `file_mutex` serialises control functions of one file.
    Plugin(Descriptor descriptor, Schema config, std::optional<Schema> endpoint,
           const sluice_plugin_entry* entry, std::shared_ptr<std::mutex> file_mutex);

    const Descriptor& descriptor() const noexcept { return descriptor_; }
    const std::string& id() const noexcept { return descriptor_.id; }
    const Schema& config_schema() const noexcept { return config_; }
    // Null when the plugin takes no endpoint fields.
    const Schema* endpoint_schema() const noexcept { return endpoint_ ? &*endpoint_ : nullptr; }

    // `config`: this plugin's fields as an object. `rule`: the whole rule, secrets masked.
    // `previous`: the rule it replaces, empty when new; `previous_config` its fields of this
    // plugin (empty when new), for x-immutable.
    Verdict propose(std::string_view config, std::string_view rule, std::string_view previous,
                    std::string_view previous_config) const;

    const sluice_plugin_entry& entry() const noexcept { return *entry_; }
    // Held over every control function of the file; the one lock under which plugin code runs.
    std::mutex& file_mutex() const noexcept { return *file_mutex_; }

private:
    Descriptor descriptor_;
    Schema config_;
    std::optional<Schema> endpoint_;
    const sluice_plugin_entry* entry_;
    std::shared_ptr<std::mutex> file_mutex_;
};

using PluginPtr = std::shared_ptr<const Plugin>;

}  // namespace sluice::plugin
