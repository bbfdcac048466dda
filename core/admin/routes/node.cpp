// The gateway itself: version, readiness, plugins.
#include "core/admin/router.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

Response get_version(Context& context, Request&) {
    return json_response(Json::Object{{"version", context.version},
                                      {"buildInfo", context.build_info},
                                      {"product", "loxilb-inference-gateway"},
                                      {"implementation", "sluice"}});
}

Response get_ready(Context& context, Request&) {
    const Readiness now = context.providers.ready();
    Json::Array reasons;
    for (const std::string& reason : now.reasons) {
        reasons.emplace_back(reason);
    }
    return json_response(Json::Object{{"ready", now.ready},
                                      {"reasons", std::move(reasons)},
                                      {"boot", Json::Object{{"profile", now.profile},
                                                            {"snapshot_found", now.database_found},
                                                            {"succeeded", now.boot_succeeded},
                                                            {"generation", now.generation},
                                                            {"quarantine_path", now.set_aside},
                                                            {"legacy_fallback", false},
                                                            {"degraded", now.degraded}}},
                                      {"external_dependencies", Json::Array{}},
                                      {"auto_persist", true},
                                      {"ebpf_attachments", Json::Array{}}},
                         now.ready ? 200 : 503);
}

Response get_plugins(Context& context, Request&) {
    return json_text("{\"plugins\":" + context.providers.plugins_json() + "}");
}

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/version",
     .handler = get_version,
     .summary = "What this is.",
     .access = Access::Public,
     .reply = "Version"},
    {.method = "GET",
     .pattern = "/netlox/v1/status/ready",
     .handler = get_ready,
     .summary = "Whether requests are served, and what an operator should look at.",
     .reply = "Ready",
     .may = "503:Ready"},
    {.method = "GET",
     .pattern = "/netlox/v1/status/plugins",
     .handler = get_plugins,
     .summary = "Plugin files found, loaded and refused.",
     .reply = "Plugins"},
};

constexpr Schema kSchemas[] = {
    {"Version", R"({"type":"object","required":["version","buildInfo","product"],"properties":{
        "version":{"type":"string"},"buildInfo":{"type":"string"},"product":{"type":"string"},
        "implementation":{"type":"string"}}})"},
    {"Ready", R"({"type":"object","required":["ready","reasons","boot"],"properties":{
        "ready":{"type":"boolean"},"reasons":{"type":"array","items":{"type":"string"}},
        "boot":{"type":"object"},"external_dependencies":{"type":"array"},
        "auto_persist":{"type":"boolean"},"ebpf_attachments":{"type":"array"}}})"},
    {"Plugins", R"({"type":"object","required":["plugins"],"properties":{
        "plugins":{"type":"array","items":{"type":"object"}}}})"},
};

}  // namespace

Topic node_topic() {
    return {"node", kRoutes, kSchemas};
}

}  // namespace sluice::admin
