// A plugin's description of itself, copied and checked.
//
// Threads: any (a value).
// Limits:  64 plugins a file, 16 extensions or services a plugin, ids 128 bytes, other texts 512
//          bytes, schemas 64 KiB.
#pragma once
#include <sluice/sdk/plugin.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::plugin {

struct Descriptor {
    std::string id, alias, name, summary, version, license, vendor, url;
    std::string config_schema;
    std::string endpoint_schema;  // empty = takes no endpoint fields
    std::vector<std::string> provides, needs;
    bool is_draft = false;
    bool owns_threads = false;

    bool provides_extension(std::string_view extension_id) const noexcept;
};

// Everything the entry describes; the first defect refuses all of it.
Result<std::vector<Descriptor>> read_descriptors(const sluice_plugin_entry& entry);

}  // namespace sluice::plugin
