#include "core/flow/directory.hpp"

#include <algorithm>

namespace sluice::flow {
namespace {

// The larger of two limits where 0 means none.
std::uint64_t larger(std::uint64_t a, std::uint64_t b) noexcept {
    return a == 0 || b == 0 ? 0 : std::max(a, b);
}

}  // namespace

route::ServicePtr service_of(const Directory& directory, std::uint32_t rule_number) {
    for (const route::ServicePtr& service : directory.services) {
        if (service->rule->number == rule_number) {
            return service;
        }
    }
    return nullptr;
}

ListenerLimits limits_of(const rules::Table& table, const rules::ListenAddress& listener) {
    ListenerLimits out;
    bool is_first = true;
    std::uint64_t header = 0;
    std::uint64_t body = 0;
    std::uint64_t idle = 0;
    for (const rules::RulePtr& rule : table.rules()) {
        if (rule->key.ip != listener.ip || rule->key.port != listener.port) {
            continue;
        }
        const rules::Timeouts& t = rule->timeouts;
        header = is_first ? t.header_ms : larger(header, t.header_ms);
        body = is_first ? t.body_ms : larger(body, t.body_ms);
        idle = is_first ? t.client_idle_ms : larger(idle, t.client_idle_ms);
        out.is_restricted = (is_first || out.is_restricted) && !rule->allowed_sources.empty();
        const auto sources = route::read_sources(rule->allowed_sources);
        out.sources.insert(out.sources.end(), sources.begin(), sources.end());
        out.max_body_bytes = is_first
                                 ? rule->max_body_bytes
                                 : std::max<std::size_t>(out.max_body_bytes, rule->max_body_bytes);
        is_first = false;
    }
    if (!is_first) {
        out.server.header = std::chrono::milliseconds(header);
        out.server.body = std::chrono::milliseconds(body);
        out.server.client_idle = std::chrono::milliseconds(idle);
    }
    return out;
}

}  // namespace sluice::flow
