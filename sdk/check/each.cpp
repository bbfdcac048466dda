#include "sdk/check/each.hpp"

namespace sluice::check {

std::optional<std::pair<schema::Schema, std::string>> smallest(const Loaded& plugin,
                                                               const sluice_plugin_desc& desc,
                                                               std::string& why) {
    auto schema =
        schema::Schema::parse(desc.config_schema == nullptr ? "" : desc.config_schema, why);
    if (!schema) {
        why.insert(0, "config_schema: ");
        return std::nullopt;
    }
    const std::string given = smallest_case(*schema);
    auto config = complete(plugin, desc, *schema, given);
    if (!config) {
        why = "check refuses the smallest configuration " + given + ": " +
              ask(plugin, desc, given).text;
        return std::nullopt;
    }
    return std::pair(std::move(*schema), std::move(*config));
}

}  // namespace sluice::check
