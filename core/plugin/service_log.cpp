#include <array>
#include <string>

#include "core/base/log.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/sdk_text.hpp"
#include "core/plugin/services.hpp"

namespace sluice::plugin {
namespace {

constexpr std::size_t kMaxMessage = 256;
constexpr std::uint32_t kMaxFields = 12;

log::Level level_of(std::uint32_t level) noexcept {
    if (level <= SLUICE_LOG_ERROR) {
        return log::Level::Error;
    }
    if (level <= SLUICE_LOG_WARN) {
        return log::Level::Warn;
    }
    return level <= SLUICE_LOG_INFO ? log::Level::Info : log::Level::Debug;
}

int enabled(const sluice_host*, std::uint32_t level) noexcept {
    return log::enabled(level_of(level)) ? 1 : 0;
}

void write(const sluice_host* host, std::uint32_t level, sluice_str msg, const sluice_pair* fields,
           std::uint32_t num_fields) noexcept {
    HostContext& context = HostContext::of(host);
    // A plugin that was deactivated has nothing to say any more; a faulted one may explain itself.
    if (context.phase() == HostContext::Phase::Closed || !log::enabled(level_of(level))) {
        return;
    }
    // Fields of a line are a list of fixed length, so what the plugin gives is one field of ours.
    std::string data;
    for (std::uint32_t i = 0; fields != nullptr && i < std::min(num_fields, kMaxFields); ++i) {
        const log::Field field(view(fields[i].key).substr(0, 64), view(fields[i].value));
        data += data.empty() ? "" : " ";
        data += field.text();
    }
    const std::string_view text = view(msg).substr(0, kMaxMessage);
    if (data.empty()) {
        log::write(level_of(level), text,
                   {{"plugin", context.plugin_id()}, {"instance", context.instance()}});
    } else {
        log::write(
            level_of(level), text,
            {{"plugin", context.plugin_id()}, {"instance", context.instance()}, {"data", data}});
    }
}

}  // namespace

const sluice_log_api& log_service() noexcept {
    static const sluice_log_api api{sizeof(sluice_log_api), 0, &enabled, &write};
    return api;
}

}  // namespace sluice::plugin
