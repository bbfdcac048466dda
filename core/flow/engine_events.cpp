#include "core/flow/engine_events.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/base/metrics.hpp"

namespace sluice::flow {
namespace {

std::string text(sluice_str s) {
    return s.len == 0 ? std::string() : std::string(s.ptr, s.len);
}

// Whoever reads only warnings must hear of events that are not followed; an engine that is not
// asked yet, or is fine, is none.
log::Level level_of(const sluice_kv_report& report) {
    const bool is_fine = report.state == SLUICE_KV_LIVE || report.why == SLUICE_WHY_NONE;
    return is_fine ? log::Level::Info : log::Level::Warn;
}

std::uint32_t ranks_of(const EngineRoute& route) {
    return std::max(route.ranks, route.learned_ranks);
}

metrics::Counter& faults(std::string_view reason) {
    return metrics::registry().counter("loxilb_ai_kv_trtllm_drain_ownership_fault_total",
                                       "Times another consumer was seen to take KV events.",
                                       {{"reason", std::string(reason)}});
}

metrics::Counter& heals() {
    return metrics::registry().counter("loxilb_ai_kv_trtllm_drain_ownership_heal_total",
                                       "Times a consumer that took KV events was seen no more.");
}

metrics::Counter& probe_failures(std::string_view reason) {
    return metrics::registry().counter("loxilb_ai_kv_attest_probe_fail_total",
                                       "Times an engine's KV events were not admitted.",
                                       {{"reason", std::string(reason)}});
}

// The words of probe_failures(); empty: the report is none.
std::string_view probe_failure(const sluice_kv_report& report) {
    if (report.why == SLUICE_WHY_UNREACHABLE && report.state == SLUICE_KV_WAITING) {
        return "unreachable";
    }
    if (report.state != SLUICE_KV_REFUSED) {
        return {};
    }
    return report.why == SLUICE_WHY_BLOCK_SIZE  ? "block_size"
           : report.why == SLUICE_WHY_ALGORITHM ? "hash_algo"
                                                : "refused";
}

bool holds(const EngineRoute& route, const std::shared_ptr<route::KvPlane>& plane) {
    return std::find(route.planes.begin(), route.planes.end(), plane) != route.planes.end();
}

}  // namespace

EngineEvents::EngineEvents(OnModels on_models) : on_models_(std::move(on_models)) {
    // Readers look for them before anything has happened.
    faults("second_consumer");
    heals();
    for (const char* reason : {"unreachable", "block_size", "hash_algo", "refused"}) {
        probe_failures(reason);
    }
}

EngineRoute* EngineEvents::find(std::uint64_t endpoint) {
    const auto it = routes_.find(endpoint);
    return it == routes_.end() ? nullptr : &it->second;
}

void EngineEvents::set_routes(EngineRoutes routes) {
    for (auto& [id, next] : routes) {
        const EngineRoute* before = find(id);
        if (before != nullptr) {
            next.learned_ranks = before->learned_ranks;
            next.is_stolen = before->is_stolen;
        }
        for (const auto& plane : next.planes) {
            const bool is_known = before != nullptr && holds(*before, plane);
            if (!is_known) {
                plane->facts(id, next.endpoint->block_tokens());
            }
            if (!is_known || ranks_of(*before) != ranks_of(next)) {
                if (const Status attached = plane->attach(id, ranks_of(next)); !attached) {
                    log::error("kv index refuses an endpoint", {{"endpoint", next.endpoint->name()},
                                                                {"reason", attached.error().what}});
                } else if (!is_known && before != nullptr && !before->planes.empty()) {
                    // The adapter has told the others already and will not say it again.
                    plane->copy(*before->planes.front(), id);
                }
            }
        }
    }
    for (const auto& [id, before] : routes_) {
        const auto next = routes.find(id);
        for (const auto& plane : before.planes) {
            if (next == routes.end() || !holds(next->second, plane)) {
                plane->detach(id);
            }
        }
    }
    routes_ = std::move(routes);
}

void EngineEvents::load(const sluice_load& load) {
    EngineRoute* route = find(load.endpoint);
    if (route == nullptr) {
        return;
    }
    fleet::Load sample;
    sample.running = load.running;
    sample.waiting = load.waiting;
    sample.max_running = load.max_running;
    sample.kv_used_ratio = load.kv_used_ratio;
    sample.total_blocks = load.total_blocks;
    // Of several ranks one may have worked while the one that matters did not.
    sample.progress = ranks_of(*route) == 1 ? load.progress : 0;
    sample.holds_expired = load.holds_expired;
    sample.holds_read_late = load.holds_read_late;
    sample.at_us = now_us();
    route->endpoint->set_load(load.dp_rank, sample);
}

void EngineEvents::health(std::uint64_t endpoint, std::uint32_t state, std::string_view why) {
    if (EngineRoute* route = find(endpoint); route != nullptr && state <= SLUICE_HEALTH_DOWN) {
        const auto next = static_cast<fleet::Health>(state);
        if (route->endpoint->health() != next) {
            log::info("engine health changed", {{"endpoint", route->endpoint->name()},
                                                {"health", fleet::to_string(next)},
                                                {"reason", why}});
        }
        route->endpoint->set_health(next, why);
    }
}

void EngineEvents::facts(const sluice_engine_facts& facts) {
    EngineRoute* route = find(facts.endpoint);
    if (route == nullptr) {
        return;
    }
    const bool is_another =
        route->endpoint->set_facts(facts.block_tokens, facts.epoch, text(facts.version));
    const std::uint32_t before = ranks_of(*route);
    route->learned_ranks =
        std::max(route->learned_ranks, std::min(facts.num_dp_ranks, kMaxLearnedRanks));
    const bool has_grown = ranks_of(*route) != before;
    if (is_another) {
        // Another process answers there now: its cache is empty.
        if (!route->is_read_elsewhere) {
            reset(facts.endpoint, SLUICE_ANY);
        }
        for (const auto& pair : route->pairs) {
            pair->handoffs->forget(facts.endpoint);
            pair->prefixes.retain([&](std::uint64_t id) { return id != facts.endpoint; });
        }
    }
    for (const auto& plane : route->planes) {
        plane->facts(facts.endpoint, facts.block_tokens);
        if (!has_grown) {
            continue;
        }
        if (const Status grown = plane->attach(facts.endpoint, ranks_of(*route)); !grown) {
            log::error("kv index refuses ranks of an endpoint",
                       {{"endpoint", route->endpoint->name()},
                        {"ranks", ranks_of(*route)},
                        {"reason", grown.error().what}});
        }
    }
}

// Once an endpoint, however many rules name it.
void EngineEvents::count(EngineRoute& route, const sluice_kv_report& report) {
    if (const std::string_view failure = probe_failure(report); !failure.empty()) {
        probe_failures(failure).add();
    }
    const bool is_stolen = report.state == SLUICE_KV_DEAD && report.why == SLUICE_WHY_COMPETITOR;
    if (is_stolen && !route.is_stolen) {
        faults("second_consumer").add();
    } else if (route.is_stolen && report.state == SLUICE_KV_LIVE) {
        heals().add();
    } else if (!is_stolen && report.state != SLUICE_KV_LIVE) {
        return;  // neither taken nor given back
    }
    route.is_stolen = is_stolen;
}

void EngineEvents::models(std::uint64_t endpoint, sluice_array models) {
    EngineRoute* route = find(endpoint);
    if (route == nullptr) {
        return;
    }
    std::vector<fleet::Model> next;
    for (std::uint32_t i = 0; i < models.count; ++i) {
        const auto* model = SLUICE_AT(sluice_model_info, models, i);
        next.push_back({text(model->name), text(model->parent), model->kind == SLUICE_MODEL_LORA});
    }
    if (!route->planes.empty()) {
        on_models_(next);
    }
    route->endpoint->set_models(std::move(next));
}

sluice_status EngineEvents::apply(const sluice_kv_batch& batch, std::uint32_t* unplaced,
                                  sluice_error* /*err*/) {
    EngineRoute* route = find(batch.endpoint);
    if (route == nullptr || route->planes.empty()) {
        return SLUICE_E_NOT_FOUND;
    }
    sluice_status status = SLUICE_OK;
    std::uint32_t most_unplaced = 0;
    for (const auto& plane : route->planes) {
        std::uint32_t here = 0;
        if (!plane->apply(batch, &here)) {
            status = SLUICE_E_INVALID;
        }
        most_unplaced = std::max(most_unplaced, here);
    }
    if (unplaced != nullptr) {
        *unplaced = most_unplaced;
    }
    if (status == SLUICE_OK) {
        for (const EventFeedPtr& feed : route->feeds) {
            feed->apply(batch);
        }
    }
    return status;
}

void EngineEvents::reset(std::uint64_t endpoint, std::uint32_t dp_rank) {
    if (EngineRoute* route = find(endpoint)) {
        for (const auto& plane : route->planes) {
            plane->reset(endpoint, dp_rank);
        }
        for (const EventFeedPtr& feed : route->feeds) {
            feed->reset(dp_rank);
        }
    }
}

void EngineEvents::report(const sluice_kv_report& report) {
    EngineRoute* route = find(report.endpoint);
    if (route == nullptr) {
        return;
    }
    count(*route, report);
    for (const auto& plane : route->planes) {
        plane->report(report);
    }
    for (const EventFeedPtr& feed : route->feeds) {
        feed->report(report);
    }
    if (report.state != SLUICE_KV_SAME) {
        const std::string reason = text(report.reason);
        log::write(level_of(report), "kv signal changed",
                   {{"endpoint", route->endpoint->name()},
                    {"signal", route::signal_word(report.state, report.why, reason)},
                    {"reason", reason},
                    {"detail", text(report.detail)},
                    {"advice", text(report.advice)}});
    }
}

}  // namespace sluice::flow
