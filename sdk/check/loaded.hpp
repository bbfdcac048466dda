// A plugin file loaded into this process, for as long as the process lives.
//
// Threads: one.
// Errors:  load() says why not.
#pragma once
#include <sluice/sdk/plugin.h>

#include <optional>
#include <string>
#include <vector>

namespace sluice::check {

struct Loaded {
    sluice_plugin_entry_v1_fn entry_fn = nullptr;
    const sluice_plugin_entry* entry = nullptr;

    std::vector<const sluice_plugin_desc*> descriptors() const;
    bool provides(const sluice_plugin_desc& desc, const char* extension_id) const;
};

// Opens the file and checks that its entry table can be used at all.
std::optional<Loaded> load(const std::string& path, std::string& error);

// What a plugin wrote into an error.
std::string text_of(const sluice_error& err);
sluice_error empty_error();
std::string status_name(sluice_status status);
bool is_known(sluice_status status);

}  // namespace sluice::check
