#include "core/plugin/registry.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/plugin/file_checks.hpp"
#include "core/plugin/scan_child.hpp"
#include "core/plugin/sdk_text.hpp"
#include "core/plugin/services.hpp"

namespace sluice::plugin {
namespace {

constexpr std::size_t kMaxBad = 1024;
constexpr const char* kEntry = "sluice_plugin_entry_v1";
constexpr std::array<std::string_view, 1> kDraftExtensions{"sluice.tokenizer/1"};

std::string dl_error() {
    const char* text = ::dlerror();
    return text == nullptr ? "cannot be loaded" : text;
}

}  // namespace

std::string_view to_string(FileState state) noexcept {
    switch (state) {
        case FileState::Loaded:
            return "loaded";
        case FileState::Bad:
            return "bad";
        case FileState::Refused:
            return "refused";
        case FileState::Shadowed:
            return "shadowed";
    }
    return "unknown";
}

// What a scan leaves for readers.
struct Registry::Contents {
    std::vector<FileReport> reports;
    std::vector<PluginPtr> plugins;
    std::map<std::string, PluginPtr, std::less<>> by_name;  // ids and aliases
};

// What scans remember of files.
class ScanMemory {
public:
    struct Loaded {
        FileIdentity identity;
        FileReport report;
        std::vector<PluginPtr> plugins;
    };
    // What of a path is mapped, and how often another file took its place. Mapped code stays, and
    // the linker finds it again by the spelling of its path.
    struct Mapped {
        FileIdentity identity;
        unsigned generation = 0;
    };
    std::map<FileIdentity, std::string> bad;  // crashed or hung in the scanning child
    std::vector<Loaded> loaded;               // in load order
    std::map<std::string, Mapped> mapped;     // by real path
    bool has_said_unscanned = false;
};

// One pass over the directories.
class Registry::Scan {
public:
    Scan(const LoaderOptions& options, ScanMemory& memory)
        : options_(options),
          memory_(memory),
          checker_(options.checker.empty() ? find_checker() : options.checker),
          next_(std::make_shared<Contents>()) {}

    std::shared_ptr<const Contents> run() {
        for (const ScanMemory::Loaded& loaded : memory_.loaded) {
            publish(loaded.plugins);
        }
        std::set<std::string> seen;
        for (const std::string& directory : options_.directories) {
            auto files = list_plugin_files(directory);
            if (!files) {
                if (files.error().code != Code::NotFound) {
                    FileReport report;
                    report.path = directory;
                    report.state = FileState::Refused;
                    report.reason = files.error().what;
                    add(std::move(report));
                }
                continue;
            }
            for (const Candidate& file : *files) {
                if (seen.insert(file.real_path.empty() ? file.path : file.real_path).second) {
                    examine(file);
                }
            }
        }
        for (const ScanMemory::Loaded& loaded : memory_.loaded) {
            if (!seen.contains(loaded.identity.path)) {
                FileReport report = loaded.report;
                report.reason = "gone from disk since it was loaded";
                next_->reports.push_back(std::move(report));
            }
        }
        return next_;
    }

private:
    void add(FileReport report) {
        if (report.state != FileState::Loaded) {
            log::warn("plugin file not loaded", {{"file", report.path},
                                                 {"state", to_string(report.state)},
                                                 {"reason", report.reason}});
        }
        next_->reports.push_back(std::move(report));
    }

    void examine(const Candidate& file) {
        const auto loaded = std::find_if(
            memory_.loaded.begin(), memory_.loaded.end(),
            [&](const ScanMemory::Loaded& l) { return l.identity.path == file.real_path; });
        if (loaded != memory_.loaded.end()) {
            // It stays as it is.
            FileReport report = loaded->report;
            if (!(file.identity == loaded->identity)) {
                report.reason = "changed on disk since it was loaded; a restart takes the new one";
            }
            next_->reports.push_back(std::move(report));
            return;
        }
        FileReport report;
        report.path = file.path;
        if (!file.refusal.empty()) {
            report.state = FileState::Refused;
            report.reason = file.refusal;
        } else if (const auto bad = memory_.bad.find(file.identity); bad != memory_.bad.end()) {
            report.reason = bad->second;
        } else if (std::string why = scan_child(file); !why.empty()) {
            report.reason = why;
            if (memory_.bad.size() >= kMaxBad) {
                memory_.bad.clear();
            }
            memory_.bad.emplace(file.identity, std::move(why));
        } else {
            load(file, report);
            return;
        }
        add(std::move(report));
    }

    void publish(const std::vector<PluginPtr>& plugins) {
        for (const PluginPtr& plugin : plugins) {
            next_->plugins.push_back(plugin);
            next_->by_name.emplace(plugin->id(), plugin);
            if (!plugin->descriptor().alias.empty()) {
                next_->by_name.emplace(plugin->descriptor().alias, plugin);
            }
        }
    }

    // Empty = fine, or nothing can be said.
    std::string scan_child(const Candidate& file) {
        if (checker_.empty()) {
            if (!memory_.has_said_unscanned) {
                memory_.has_said_unscanned = true;
                log::warn("plugin files are loaded without a scan: no sluice-plugin-check found");
            }
            return {};
        }
        auto described = describe_in_child(checker_, file.real_path);
        if (described) {
            return {};
        }
        if (described.error().code == Code::Io) {
            log::warn("plugin scan not possible",
                      {{"file", file.path}, {"error", described.error().what}});
            return {};
        }
        return described.error().what;
    }

    // A file that replaced a refused one is mapped under another spelling of its path; empty when
    // the mapped file itself was written over.
    std::string path_to_map(const Candidate& file) {
        const auto [it, is_new] =
            memory_.mapped.try_emplace(file.real_path, ScanMemory::Mapped{file.identity, 0});
        ScanMemory::Mapped& mapped = it->second;
        if (!is_new && !(mapped.identity == file.identity)) {
            if (mapped.identity.inode == file.identity.inode) {
                return {};
            }
            mapped.identity = file.identity;
            ++mapped.generation;
        }
        const std::size_t slash = file.real_path.rfind('/');
        std::string path = file.real_path.substr(0, slash);
        for (unsigned i = 0; i < mapped.generation; ++i) {
            path += "/.";
        }
        return path + file.real_path.substr(slash);
    }

    void load(const Candidate& file, FileReport report) {
        const std::string path = path_to_map(file);
        if (path.empty()) {
            report.state = FileState::Refused;
            report.reason = "overwritten in place while mapped; a restart takes the new one";
            add(std::move(report));
            return;
        }
        void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (handle == nullptr) {
            report.reason = dl_error();
            add(std::move(report));
            return;
        }
        void* symbol = ::dlsym(handle, kEntry);
        if (symbol == nullptr) {
            report.reason = std::string("does not export ") + kEntry;
            add(std::move(report));
            return;
        }
        const auto entry_fn = reinterpret_cast<sluice_plugin_entry_v1_fn>(symbol);
        const sluice_plugin_entry* entry = entry_fn();
        std::vector<PluginPtr> plugins;
        if (!check_entry(entry, report) || !describe(*entry, report) || !check_names(report) ||
            !make_plugins(*entry, report, plugins)) {
            add(std::move(report));
            return;
        }
        auto err = empty_error();
        if (const auto status = entry->init(&err); status != SLUICE_OK) {
            report.state = FileState::Refused;
            report.reason = "init: " + message(status, err);
            add(std::move(report));
            return;
        }
        report.state = FileState::Loaded;
        publish(plugins);
        for (const PluginPtr& plugin : plugins) {
            log::info("plugin loaded", {{"plugin", plugin->id()},
                                        {"version", plugin->descriptor().version},
                                        {"file", file.path}});
        }
        memory_.loaded.push_back({file.identity, report, plugins});
        next_->reports.push_back(std::move(report));
    }

    static bool refuse(FileReport& report, std::string why, FileState state = FileState::Refused) {
        report.state = state;
        report.reason = std::move(why);
        return false;
    }

    static bool check_entry(const sluice_plugin_entry* entry, FileReport& report) {
        if (entry == nullptr) {
            return refuse(report, "its entry function gives nothing", FileState::Bad);
        }
        if (!SLUICE_HAS(sluice_plugin_entry, entry, abi_minor)) {
            return refuse(report, "its entry table is too short", FileState::Bad);
        }
        report.abi_major = entry->abi_major;
        report.abi_minor = entry->abi_minor;
        if (entry->abi_major != SLUICE_ABI_MAJOR || entry->abi_minor > SLUICE_TARGET_MINOR) {
            return refuse(report, "built for ABI " + std::to_string(entry->abi_major) + "." +
                                      std::to_string(entry->abi_minor) + ", this gateway has " +
                                      std::to_string(SLUICE_ABI_MAJOR) + "." +
                                      std::to_string(SLUICE_TARGET_MINOR));
        }
        if (!SLUICE_HAS(sluice_plugin_entry, entry, create) || entry->init == nullptr ||
            entry->count == nullptr || entry->describe == nullptr || entry->create == nullptr) {
            return refuse(report, "its entry table is not complete", FileState::Bad);
        }
        if (entry->sdk_version != nullptr) {
            report.sdk_version.assign(entry->sdk_version, ::strnlen(entry->sdk_version, 64));
        }
        return true;
    }

    bool describe(const sluice_plugin_entry& entry, FileReport& report) const {
        auto read = read_descriptors(entry);
        if (!read) {
            return refuse(report, read.error().what, FileState::Bad);
        }
        report.plugins = std::move(read).value();
        for (const Descriptor& d : report.plugins) {
            for (const std::string& need : d.needs) {
                if (!has_service(need)) {
                    return refuse(report, d.id + " needs the service " + need +
                                              ", which this gateway does not have");
                }
            }
            const bool is_draft =
                d.is_draft || std::any_of(kDraftExtensions.begin(), kDraftExtensions.end(),
                                          [&](auto id) { return d.provides_extension(id); });
            if (is_draft && !options_.allow_drafts) {
                return refuse(report, d.id + " uses draft interfaces; allow_draft_plugins is off");
            }
        }
        return true;
    }

    // First one wins: among files, and within one.
    bool check_names(FileReport& report) const {
        std::set<std::string> own;
        for (const Descriptor& d : report.plugins) {
            if (const auto it = next_->by_name.find(d.id); it != next_->by_name.end()) {
                return refuse(report, d.id + " is already loaded from another file",
                              FileState::Shadowed);
            }
            if (const auto it = next_->by_name.find(d.alias);
                !d.alias.empty() && it != next_->by_name.end()) {
                return refuse(report, "the alias " + d.alias + " of " + d.id + " belongs to " +
                                          it->second->id());
            }
            if (!own.insert(d.id).second || (!d.alias.empty() && !own.insert(d.alias).second)) {
                return refuse(report, d.id + " or its alias stands twice in this file");
            }
        }
        return true;
    }

    static bool make_plugins(const sluice_plugin_entry& entry, FileReport& report,
                             std::vector<PluginPtr>& out) {
        const auto file_mutex = std::make_shared<std::mutex>();
        for (const Descriptor& d : report.plugins) {
            auto config = Schema::parse(d.config_schema);
            if (!config) {
                return refuse(report, d.id + ": config_schema: " + config.error().what);
            }
            std::optional<Schema> endpoint;
            if (!d.endpoint_schema.empty()) {
                auto parsed = Schema::parse(d.endpoint_schema);
                if (!parsed) {
                    return refuse(report, d.id + ": endpoint_schema: " + parsed.error().what);
                }
                endpoint = std::move(parsed).value();
            }
            out.push_back(std::make_shared<const Plugin>(d, std::move(config).value(),
                                                         std::move(endpoint), &entry, file_mutex));
        }
        return true;
    }

    const LoaderOptions& options_;
    ScanMemory& memory_;
    const std::string checker_;
    std::shared_ptr<Contents> next_;
};

std::vector<std::string> default_plugin_directories() {
    return {"/usr/lib/" SLUICE_MULTIARCH "/sluice/plugins", "/usr/local/lib/sluice/plugins"};
}

Registry::Registry(LoaderOptions options)
    : options_(std::move(options)),
      memory_(std::make_unique<ScanMemory>()),
      contents_(std::make_shared<const Contents>()) {}

Registry::~Registry() = default;

void Registry::scan() {
    const std::lock_guard lock(scan_mu_);
    (void)contents_.set(Scan(options_, *memory_).run());  // the old contents end here
}

std::vector<FileReport> Registry::reports() const {
    return contents_.get()->reports;
}

std::vector<PluginPtr> Registry::plugins() const {
    return contents_.get()->plugins;
}

PluginPtr Registry::find(std::string_view id_or_alias) const {
    const auto contents = contents_.get();
    const auto it = contents->by_name.find(id_or_alias);
    return it == contents->by_name.end() ? nullptr : it->second;
}

}  // namespace sluice::plugin
