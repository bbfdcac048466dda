// The entry symbol of the vLLM adapter and its descriptor.
#include "plugins/vllm/adapter.hpp"
#include "plugins/vllm/schema.hpp"

namespace {

constexpr const char* kProvides[] = {SLUICE_EXT_ENGINE, nullptr};
constexpr const char* kNeeds[] = {SLUICE_SVC_EVENT, SLUICE_SVC_HTTP, SLUICE_SVC_ZMQ,
                                  SLUICE_SVC_FLEET, SLUICE_SVC_KV,   nullptr};
const sluice_plugin_desc kDesc{
    sizeof(sluice_plugin_desc),
    0,
    "org.sluice.engine.vllm",
    "vllm",
    "vLLM",
    "vLLM engines from 0.9 on: load, models, KV-cache events with replay, prefill/decode pairs.",
    "0.1.0",
    "Apache-2.0",
    "Sluice",
    "",
    sluice::vllm::kConfigSchema,
    sluice::vllm::kEndpointSchema,
    kProvides,
    kNeeds};
const sluice::PluginSpec kPlugins[] = {
    {&kDesc, &sluice::vllm::Adapter::make, &sluice::vllm::check_rule}};

}  // namespace

SLUICE_EXPORT const sluice_plugin_entry* sluice_plugin_entry_v1(void) {
    return sluice::plugin_entry<kPlugins>();
}
