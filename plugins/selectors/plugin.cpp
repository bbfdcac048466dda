// The entry symbol of the selectors file and the descriptors in it.
#include "plugins/selectors/least_connections.hpp"
#include "plugins/selectors/round_robin.hpp"
#include "plugins/selectors/weighted.hpp"

namespace {

constexpr const char* kProvides[] = {SLUICE_EXT_SELECTOR, nullptr};
constexpr const char* kNeeds[] = {nullptr};
constexpr const char* kNoFields =
    R"({"type":"object","properties":{},"additionalProperties":false})";

constexpr sluice_plugin_desc describe(const char* id, const char* alias, const char* name,
                                      const char* summary) {
    return {sizeof(sluice_plugin_desc),
            0,
            id,
            alias,
            name,
            summary,
            "0.1.0",
            "Apache-2.0",
            "Sluice",
            "",
            kNoFields,
            nullptr,
            kProvides,
            kNeeds};
}
constexpr auto kRoundRobin =
    describe("org.sluice.selector.rr", "rr", "Round robin", "Each endpoint in turn.");
constexpr auto kWeighted = describe("org.sluice.selector.wrr", "wrr", "Weighted round robin",
                                    "Each endpoint in turn, as often as its weight says.");
constexpr auto kLeastConnections = describe("org.sluice.selector.lc", "lc", "Least connections",
                                            "Fewest unfinished requests for its weight.");

constexpr sluice::PluginSpec kPlugins[] = {
    {&kRoundRobin, &sluice::selectors::RoundRobin::make},
    {&kWeighted, &sluice::selectors::Weighted::make},
    {&kLeastConnections, &sluice::selectors::LeastConnections::make},
};

}  // namespace

SLUICE_EXPORT const sluice_plugin_entry* sluice_plugin_entry_v1(void) {
    return sluice::plugin_entry<kPlugins>();
}
