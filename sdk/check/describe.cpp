#include "sdk/check/describe.hpp"

#include "sdk/check/loaded.hpp"
#include "sdk/check/schema_value.hpp"

namespace sluice::check {
namespace {

void member(std::string& out, const char* name, const char* value) {
    out += out.back() == '{' ? "" : ",";
    schema::append_quoted(out, name);
    out += ':';
    schema::append_quoted(out, value == nullptr ? "" : value);
}

void list(std::string& out, const char* name, const char* const* values) {
    out += ",\"" + std::string(name) + "\":[";
    for (std::size_t i = 0; values != nullptr && values[i] != nullptr && i < 64; ++i) {
        out += i > 0 ? "," : "";
        schema::append_quoted(out, values[i]);
    }
    out += ']';
}

}  // namespace

std::optional<std::string> describe(const std::string& path, std::string& error) {
    const auto plugin = load(path, error);
    if (!plugin) {
        return std::nullopt;
    }
    const auto descriptors = plugin->descriptors();
    if (descriptors.size() != plugin->entry->count() || descriptors.empty()) {
        error = "a descriptor is missing or too short";
        return std::nullopt;
    }
    std::string out = "{";
    member(out, "file", path.c_str());
    out += ",\"abi_major\":" + std::to_string(plugin->entry->abi_major) +
           ",\"abi_minor\":" + std::to_string(plugin->entry->abi_minor);
    member(out, "sdk_version", plugin->entry->sdk_version);
    out += ",\"plugins\":[";
    for (const sluice_plugin_desc* d : descriptors) {
        out += out.back() == '[' ? "{" : ",{";
        member(out, "id", d->id);
        member(out, "alias", d->alias);
        member(out, "name", d->name);
        member(out, "summary", d->summary);
        member(out, "version", d->version);
        member(out, "license", d->license);
        member(out, "vendor", d->vendor);
        member(out, "url", d->url);
        member(out, "config_schema", d->config_schema);
        member(out, "endpoint_schema", d->endpoint_schema);
        list(out, "provides", d->provides);
        list(out, "needs", d->needs);
        out += ",\"draft\":" + std::string((d->flags & SLUICE_DESC_DRAFT) != 0 ? "true" : "false");
        out += ",\"own_threads\":" +
               std::string((d->flags & SLUICE_DESC_OWN_THREADS) != 0 ? "true" : "false") + "}";
    }
    return out + "]}";
}

}  // namespace sluice::check
