#include "core/flow/instance_names.hpp"

namespace sluice::flow {

std::string InstanceNames::next(const std::string& plugin) {
    std::erase_if(names_, [](const auto& entry) { return entry.second.expired(); });
    for (std::uint64_t number = 1;; ++number) {
        std::string name = plugin + "-" + std::to_string(number);
        if (!names_.contains(name)) {
            return name;
        }
    }
}

}  // namespace sluice::flow
