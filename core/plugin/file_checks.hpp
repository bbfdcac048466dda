// May this file's code become part of the process?
//
// Threads: any.
// Source:  the SDK's loader contract, step 1: a regular file inside its directory, neither writable
//          by group or others, owned by root or by the user the gateway runs as.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::plugin {

// What tells one version of a file from another.
struct FileIdentity {
    std::string path;
    std::uint64_t size = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t inode = 0;
    auto operator<=>(const FileIdentity&) const = default;
};

struct Candidate {
    std::string path;       // as listed: directory + "/" + name
    std::string real_path;  // what is loaded
    FileIdentity identity;
    std::string refusal;  // empty = may be loaded
};

// Every *.so of a directory in name order, each checked. NotFound when there is no such directory;
// Invalid when the directory itself may not be trusted.
Result<std::vector<Candidate>> list_plugin_files(const std::string& directory);

}  // namespace sluice::plugin
