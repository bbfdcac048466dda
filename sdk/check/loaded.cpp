#include "sdk/check/loaded.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

namespace sluice::check {

std::optional<Loaded> load(const std::string& path, std::string& error) {
    // A name without a slash would be looked for in the library path.
    const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
        const char* why = ::dlerror();
        error = why == nullptr ? "cannot be loaded" : why;
        return std::nullopt;
    }
    void* symbol = ::dlsym(handle, "sluice_plugin_entry_v1");
    if (symbol == nullptr) {
        error = "does not export sluice_plugin_entry_v1";
        return std::nullopt;
    }
    Loaded out;
    out.entry_fn = reinterpret_cast<sluice_plugin_entry_v1_fn>(symbol);
    out.entry = out.entry_fn();
    if (out.entry == nullptr || !SLUICE_HAS(sluice_plugin_entry, out.entry, abi_minor)) {
        error = "its entry table is missing or too short";
        return std::nullopt;
    }
    if (out.entry->abi_major != SLUICE_ABI_MAJOR || out.entry->abi_minor > SLUICE_TARGET_MINOR) {
        error = "built for ABI " + std::to_string(out.entry->abi_major) + "." +
                std::to_string(out.entry->abi_minor) + ", this is " +
                std::to_string(SLUICE_ABI_MAJOR) + "." + std::to_string(SLUICE_TARGET_MINOR);
        return std::nullopt;
    }
    if (!SLUICE_HAS(sluice_plugin_entry, out.entry, create) || out.entry->init == nullptr ||
        out.entry->deinit == nullptr || out.entry->count == nullptr ||
        out.entry->describe == nullptr || out.entry->create == nullptr) {
        error = "its entry table is not complete";
        return std::nullopt;
    }
    return out;
}

std::vector<const sluice_plugin_desc*> Loaded::descriptors() const {
    std::vector<const sluice_plugin_desc*> out;
    const std::uint32_t count = std::min(entry->count(), 64U);
    for (std::uint32_t i = 0; i < count; ++i) {
        const sluice_plugin_desc* desc = entry->describe(i);
        if (desc != nullptr && SLUICE_HAS(sluice_plugin_desc, desc, needs) && desc->id != nullptr) {
            out.push_back(desc);
        }
    }
    return out;
}

bool Loaded::provides(const sluice_plugin_desc& desc, const char* extension_id) const {
    for (std::size_t i = 0; desc.provides != nullptr && desc.provides[i] != nullptr && i < 64;
         ++i) {
        if (std::strcmp(desc.provides[i], extension_id) == 0) {
            return true;
        }
    }
    return false;
}

std::string text_of(const sluice_error& err) {
    return std::string(err.msg, std::min<std::size_t>(err.len, sizeof err.msg));
}

sluice_error empty_error() {
    sluice_error err{};
    err.size = sizeof err;
    return err;
}

bool is_known(sluice_status status) {
    return status >= SLUICE_E_IMMUTABLE && status <= SLUICE_PASS;
}

std::string status_name(sluice_status status) {
    static constexpr const char* kNames[] = {
        "SLUICE_E_IMMUTABLE", "SLUICE_E_NO_MEMORY",   "SLUICE_E_PROTOCOL", "SLUICE_E_UNAVAILABLE",
        "SLUICE_E_CANCELLED", "SLUICE_E_TIMEOUT",     "SLUICE_E_LIMIT",    "SLUICE_E_STATE",
        "SLUICE_E_NOT_FOUND", "SLUICE_E_UNSUPPORTED", "SLUICE_E_VERSION",  "SLUICE_E_CONFIG",
        "SLUICE_E_INVALID",   "SLUICE_E_INTERNAL",    "SLUICE_OK",         "SLUICE_AGAIN",
        "SLUICE_PASS"};
    return is_known(status) ? kNames[status - SLUICE_E_IMMUTABLE]
                            : "the unknown status " + std::to_string(status);
}

}  // namespace sluice::check
