// Finds plugin files, loads the good ones and says what became of each.
//
// Threads: scan() control, one at a time; the rest any.
// Owns:    nothing that is ever unmapped: plugin code stays for the life of the process.
// Errors:  a file that cannot be used is a report, never a failure of the scan.
// Source:  the SDK's loader contract: directories in order, files in name order, first id wins.
// Limits:  256 files a directory; the scanning child gets 2 s and 1 MiB of output.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/snapshot.hpp"
#include "core/plugin/descriptor.hpp"
#include "core/plugin/plugin.hpp"

namespace sluice::plugin {

enum class FileState { Loaded, Bad, Refused, Shadowed };
std::string_view to_string(FileState state) noexcept;

struct FileReport {
    std::string path;
    FileState state = FileState::Bad;
    std::string reason;  // empty when loaded and nothing is to be said
    std::uint32_t abi_major = 0, abi_minor = 0;
    std::string sdk_version;
    std::vector<Descriptor> plugins;  // empty when it could not be described
};

struct LoaderOptions {
    std::vector<std::string> directories;  // in order; the first file with an id wins
    // Scans a file in a child before it is loaded here. Empty = `sluice-plugin-check` beside this
    // program; when there is none, files are loaded unscanned, which is logged once.
    std::string checker;
    bool allow_drafts = false;
};

// Of packages, then local ones; the configuration's plugin_path comes after them.
std::vector<std::string> default_plugin_directories();

class Registry {
public:
    explicit Registry(LoaderOptions options);
    ~Registry();
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    // Loads what is new. Files that are loaded stay as they are, even when the file changed.
    void scan();

    std::vector<FileReport> reports() const;
    // Every loaded plugin, in load order.
    std::vector<PluginPtr> plugins() const;
    // By id or alias; null when there is none.
    PluginPtr find(std::string_view id_or_alias) const;

private:
    struct Contents;
    class Scan;

    const LoaderOptions options_;
    std::mutex scan_mu_;                        // held over a scan: control work only
    std::unique_ptr<class ScanMemory> memory_;  // guarded by scan_mu_
    Snapshot<Contents> contents_;
};

}  // namespace sluice::plugin
