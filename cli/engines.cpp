#include "cli/engines.hpp"

#include <filesystem>

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

Result<std::shared_ptr<plugin::EngineInstance>> make(plugin::Runtime& runtime,
                                                     const plugin::Registry& registry,
                                                     const std::string& name,
                                                     const std::vector<std::string>& folders) {
    const plugin::PluginPtr found = registry.find(name);
    if (!found) {
        std::string searched;
        for (const std::string& folder : folders) {
            searched += (searched.empty() ? "" : ", ") + folder;
        }
        return Error{Code::NotFound, "no plugin is loaded as " + name + " (" + searched + ")"};
    }
    const plugin::Verdict verdict = found->propose("{}", "{}", {}, {});
    if (verdict.is_refused()) {
        return Error{Code::Invalid, found->id() + " takes no empty configuration"};
    }
    plugin::InstanceSpec spec;
    spec.name = name;
    spec.config = verdict.config;
    auto made = plugin::EngineInstance::create(runtime, found, std::move(spec));
    if (made) {
        if (const Status active = (*made)->activate(); !active) {
            return active.error();
        }
    }
    return made;
}

}  // namespace

std::vector<std::string> Engines::folders(std::span<const std::string> more) {
    std::vector<std::string> out;
    std::error_code failed;
    const fs::path self = fs::read_symlink("/proc/self/exe", failed);
    const fs::path beside = self.parent_path() / ".." / "lib" / "sluice" / "plugins";
    if (!failed && fs::is_directory(beside, failed)) {
        out.push_back(fs::canonical(beside, failed).string());
    }
    for (const std::string& folder : plugin::default_plugin_directories()) {
        out.push_back(folder);
    }
    out.insert(out.end(), more.begin(), more.end());
    return out;
}

Engines::Engines(std::vector<std::string> folders)
    : folders_(std::move(folders)),
      runtime_(sink_),
      registry_(plugin::LoaderOptions{.directories = folders_, .checker = {}}) {}

Engines::~Engines() {
    made_.clear();
    runtime_.stop();
}

Status Engines::start() {
    if (Status started = runtime_.start(); !started) {
        return started;
    }
    registry_.scan();
    return {};
}

Result<const plugin::EngineInstance*> Engines::find(const std::string& name) {
    auto at = made_.find(name);
    if (at == made_.end()) {
        at = made_.emplace(name, make(runtime_, registry_, name, folders_)).first;
    }
    if (!at->second) {
        return at->second.error();
    }
    return static_cast<const plugin::EngineInstance*>(at->second->get());
}

}  // namespace sluice::cli
