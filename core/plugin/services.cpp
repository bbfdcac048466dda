#include "core/plugin/services.hpp"

#include <array>

namespace sluice::plugin {
namespace {

struct Service {
    std::string_view id;
    const void* table;
};

const std::array<Service, 7>& services() noexcept {
    static const std::array<Service, 7> all{{{SLUICE_SVC_LOG, &log_service()},
                                             {SLUICE_SVC_METRICS, &metrics_service()},
                                             {SLUICE_SVC_EVENT, &event_service()},
                                             {SLUICE_SVC_HTTP, &http_service()},
                                             {SLUICE_SVC_ZMQ, &zmq_service()},
                                             {SLUICE_SVC_FLEET, &fleet_service()},
                                             {SLUICE_SVC_KV, &kv_service()}}};
    return all;
}

}  // namespace

bool has_service(std::string_view id) noexcept {
    return find_service(id) != nullptr;
}

const void* find_service(std::string_view id) noexcept {
    for (const Service& s : services()) {
        if (s.id == id) {
            return s.table;
        }
    }
    return nullptr;
}

}  // namespace sluice::plugin
