// The entry symbol of the TensorRT-LLM adapter and its descriptor.
#include "plugins/trtllm/adapter.hpp"
#include "plugins/trtllm/schema.hpp"

namespace {

constexpr const char* kProvides[] = {SLUICE_EXT_ENGINE, nullptr};
constexpr const char* kNeeds[] = {SLUICE_SVC_EVENT, SLUICE_SVC_HTTP, SLUICE_SVC_FLEET,
                                  SLUICE_SVC_KV, nullptr};
const sluice_plugin_desc kDesc{
    sizeof(sluice_plugin_desc),
    0,
    "org.sluice.engine.trtllm",
    "trtllm",
    "TensorRT-LLM",
    "trtllm-serve from 0.21 on: load, models, KV-cache events drained from the serving port.",
    "0.1.0",
    "Apache-2.0",
    "Sluice",
    "",
    sluice::trtllm::kConfigSchema,
    nullptr,
    kProvides,
    kNeeds};
const sluice::PluginSpec kPlugins[] = {
    {&kDesc, &sluice::trtllm::Adapter::make, &sluice::trtllm::check_rule}};

}  // namespace

SLUICE_EXPORT const sluice_plugin_entry* sluice_plugin_entry_v1(void) {
    return sluice::plugin_entry<kPlugins>();
}
