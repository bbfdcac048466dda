// Names for plugin instances: plugin and number, "vllm-1". A number is used again when its instance
// has ended, so that metric labels made of names stay few however often rules are edited.
//
// Threads: control.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace sluice::flow {

class InstanceNames {
public:
    // The name with the lowest number that no live instance has.
    std::string next(const std::string& plugin);
    // From now on `instance` has the name, for as long as it lives.
    void taken(const std::string& name, const std::shared_ptr<const void>& instance) {
        names_[name] = instance;
    }

private:
    std::map<std::string, std::weak_ptr<const void>> names_;
};

}  // namespace sluice::flow
