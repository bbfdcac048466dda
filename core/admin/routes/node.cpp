// The gateway itself: version, readiness, the process and its machine, plugins, capabilities.
#include <cstdio>

#include "core/admin/host_info.hpp"
#include "core/admin/router.hpp"
#include "core/admin/switches.hpp"
#include "core/base/clock.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

Response get_version(Context& context, Request&) {
    return json_response(Json::Object{{"version", context.version},
                                      {"buildInfo", context.build_info},
                                      {"product", "loxilb-inference-gateway"},
                                      {"implementation", "sluice"}});
}

// A reason is `code: text`.
std::string_view code_of(std::string_view reason) {
    return reason.substr(0, reason.find(':'));
}

// Null: never.
Json persisted(const rules::Persisted& last) {
    if (last.at_us == 0 && last.error.empty()) {
        return {};
    }
    Json::Object out{{"error", last.error}};
    out.emplace("at", last.at_us == 0 ? Json() : Json(rfc3339(last.at_us)));
    if (last.generation != 0) {
        out.emplace("generation", last.generation);
    }
    return out;
}

Response get_ready(Context& context, Request& request) {
    Readiness now = context.providers.ready();
    if (maintenance(context.book).is_on) {
        now.ready = false;
        now.reasons.insert(now.reasons.begin(), "maintenance: new requests are refused");
    }
    Json::Array reasons;
    for (const std::string& reason : now.reasons) {
        reasons.emplace_back(request.is_identified ? std::string_view(reason) : code_of(reason));
    }
    Json::Object out{{"ready", now.ready}, {"reasons", std::move(reasons)}};
    if (request.is_identified) {
        out["boot"] =
            Json::Object{{"profile", now.profile},           {"snapshot_found", now.database_found},
                         {"succeeded", now.boot_succeeded},  {"generation", now.generation},
                         {"quarantine_path", now.set_aside}, {"legacy_fallback", false},
                         {"degraded", now.degraded}};
        out["external_dependencies"] = Json::Array{};
        out["auto_persist"] = true;
        out["last_persist"] = persisted(context.book.last_persist());
        out["last_restore"] = persisted(context.book.last_restore());
        out["ebpf_attachments"] = Json::Array{};
    }
    return json_response(std::move(out), now.ready ? 200 : 503);
}

Response get_plugins(Context& context, Request&) {
    return json_text("{\"plugins\":" + context.providers.plugins_json() + "}");
}

Response get_capabilities(Context& context, Request&) {
    Json::Array list;
    for (const Capability& one : context.providers.capabilities()) {
        Json::Object entry{{"name", one.name}, {"ready", one.is_ready}};
        if (!one.code.empty()) {
            entry["code"] = one.code;
        }
        list.emplace_back(std::move(entry));
    }
    return json_response(Json::Object{{"capabilities", std::move(list)}});
}

std::string fixed(double value, const char* unit) {
    char text[64];
    std::snprintf(text, sizeof text, "%.1f%s", value, unit);
    return text;
}

// The texts are the ones that operators of the original see; exact figures stand beside them.
Response get_process(Context&, Request&) {
    const ProcessInfo info = process_info();
    const double cpu_ratio = info.uptime_seconds > 0 ? info.cpu_seconds / info.uptime_seconds : 0;
    Json::Object entry{{"pid", std::to_string(info.pid)},
                       {"user", info.user},
                       {"command", info.command},
                       {"status", info.status},
                       {"priority", std::to_string(info.priority)},
                       {"nice", std::to_string(info.nice)},
                       {"virtMemory", std::to_string(info.virtual_bytes)},
                       {"residentSize", std::to_string(info.resident_bytes)},
                       {"sharedMemory", std::to_string(info.shared_bytes)},
                       {"CPUUsage", fixed(cpu_ratio * 100, "%")},
                       {"MemoryUsage", fixed(info.memory_ratio * 100, "%")},
                       {"time", fixed(info.cpu_seconds, "s")},
                       {"threads", info.threads},
                       {"open_files", info.open_files},
                       {"cpu_seconds", info.cpu_seconds},
                       {"uptime_seconds", info.uptime_seconds},
                       {"resident_bytes", info.resident_bytes}};
    return json_response(Json::Object{{"processAttr", Json::Array{std::move(entry)}}});
}

Response get_device(Context&, Request&) {
    const DeviceInfo info = device_info();
    return json_response(Json::Object{{"hostName", info.host_name},
                                      {"machineID", info.machine_id},
                                      {"bootID", info.boot_id},
                                      {"OS", info.os},
                                      {"kernel", info.kernel},
                                      {"architecture", info.architecture},
                                      {"uptime", fixed(info.uptime_seconds, "s")},
                                      {"uptime_seconds", info.uptime_seconds},
                                      {"cores", info.cores},
                                      {"memory_bytes", info.memory_bytes}});
}

Response get_filesystem(Context& context, Request&) {
    const FileSystemInfo info = file_system_info(context.providers.state_file());
    Json::Object entry{{"fileSystem", info.source},
                       {"type", info.type},
                       {"mountedOn", info.mounted_on},
                       {"size", std::to_string(info.size_bytes)},
                       {"used", std::to_string(info.used_bytes)},
                       {"avail", std::to_string(info.available_bytes)},
                       {"usePercent", fixed(info.used_ratio * 100, "%")},
                       {"size_bytes", info.size_bytes},
                       {"used_bytes", info.used_bytes},
                       {"available_bytes", info.available_bytes}};
    return json_response(Json::Object{{"filesystemAttr", Json::Array{std::move(entry)}}});
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
     .summary = "Whether requests are served, and what an operator should look at. Who has no "
                "token sees the reasons' codes only.",
     .access = Access::Public,
     .reply = "Ready",
     .may = "503:Ready"},
    {.method = "GET",
     .pattern = "/netlox/v1/status/plugins",
     .handler = get_plugins,
     .summary = "Plugin files found, loaded and refused.",
     .reply = "Plugins"},
    {.method = "GET",
     .pattern = "/netlox/v1/status/capabilities",
     .handler = get_capabilities,
     .summary = "What this gateway can do with the plugins that are loaded.",
     .reply = "Capabilities"},
    {.method = "GET",
     .pattern = "/netlox/v1/status/process",
     .handler = get_process,
     .summary = "This process: threads, memory, processor time.",
     .reply = "Processes"},
    {.method = "GET",
     .pattern = "/netlox/v1/status/device",
     .handler = get_device,
     .summary = "The machine this process runs on.",
     .reply = "Device"},
    {.method = "GET",
     .pattern = "/netlox/v1/status/filesystem",
     .handler = get_filesystem,
     .summary = "The file system of the database of rules.",
     .reply = "FileSystems"},
};

constexpr Schema kSchemas[] = {
    {"Version", R"({"type":"object","required":["version","buildInfo","product"],"properties":{
        "version":{"type":"string"},"buildInfo":{"type":"string"},"product":{"type":"string"},
        "implementation":{"type":"string"}}})"},
    {"Ready", R"({"type":"object","required":["ready","reasons"],"properties":{
        "ready":{"type":"boolean"},"reasons":{"type":"array","items":{"type":"string"}},
        "boot":{"type":"object"},"external_dependencies":{"type":"array"},
        "auto_persist":{"type":"boolean"},"ebpf_attachments":{"type":"array"},
        "last_persist":{"$ref":"#/components/schemas/Persisted"},
        "last_restore":{"$ref":"#/components/schemas/Persisted"}}})"},
    {"Persisted", R"({"type":["object","null"],"required":["at","error"],"properties":{
        "at":{"type":["string","null"]},"generation":{"type":"integer","minimum":1},
        "error":{"type":"string"}}})"},
    {"Plugins", R"({"type":"object","required":["plugins"],"properties":{
        "plugins":{"type":"array","items":{"type":"object",
            "required":["path","state","reason","sdk_version","plugins"],"properties":{
            "path":{"type":"string"},"state":{"type":"string"},"reason":{"type":"string"},
            "plugins":{"type":"array","items":{"type":"object",
                "required":["id","alias","name","summary","version","license","provides"],
                "properties":{"id":{"type":"string"},"alias":{"type":"string"},
                "name":{"type":"string"},"summary":{"type":"string"},
                "version":{"type":"string"},"license":{"type":"string"},
                "provides":{"type":"array","items":{"type":"string"}}}}}}}}}})"},
    {"Capabilities", R"({"type":"object","required":["capabilities"],"properties":{
        "capabilities":{"type":"array","items":{"type":"object","required":["name","ready"],
        "properties":{"name":{"type":"string"},"ready":{"type":"boolean"},
        "code":{"type":"string"}}}}}})"},
    {"Processes", R"({"type":"object","required":["processAttr"],"properties":{
        "processAttr":{"type":"array","items":{"type":"object","required":["pid","command"],
        "properties":{"pid":{"type":"string"},"user":{"type":"string"},
        "command":{"type":"string"},"status":{"type":"string"},"priority":{"type":"string"},
        "nice":{"type":"string"},"virtMemory":{"type":"string"},"residentSize":{"type":"string"},
        "sharedMemory":{"type":"string"},"CPUUsage":{"type":"string"},
        "MemoryUsage":{"type":"string"},"time":{"type":"string"},"threads":{"type":"integer"},
        "open_files":{"type":"integer"},"cpu_seconds":{"type":"number"},
        "uptime_seconds":{"type":"number"},"resident_bytes":{"type":"integer"}}}}}})"},
    {"Device", R"({"type":"object","required":["hostName","kernel"],"properties":{
        "hostName":{"type":"string"},"machineID":{"type":"string"},"bootID":{"type":"string"},
        "OS":{"type":"string"},"kernel":{"type":"string"},"architecture":{"type":"string"},
        "uptime":{"type":"string"},"uptime_seconds":{"type":"number"},"cores":{"type":"integer"},
        "memory_bytes":{"type":"integer"}}})"},
    {"FileSystems", R"({"type":"object","required":["filesystemAttr"],"properties":{
        "filesystemAttr":{"type":"array","items":{"type":"object","required":["size","avail"],
        "properties":{"fileSystem":{"type":"string"},"type":{"type":"string"},
        "mountedOn":{"type":"string"},"size":{"type":"string"},"used":{"type":"string"},
        "avail":{"type":"string"},"usePercent":{"type":"string"},"size_bytes":{"type":"integer"},
        "used_bytes":{"type":"integer"},"available_bytes":{"type":"integer"}}}}}})"},
};

}  // namespace

Topic node_topic() {
    return {"node", kRoutes, kSchemas};
}

}  // namespace sluice::admin
