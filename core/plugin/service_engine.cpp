// Services fleet and kv: what engine adapters learn, checked at the border and handed to the sink.
#include <algorithm>
#include <cstring>

#include "core/plugin/attachment.hpp"
#include "core/plugin/event_side.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"
#include "core/plugin/services.hpp"

namespace sluice::plugin {
namespace {

constexpr std::uint32_t kMaxEvents = 1U << 16U;
constexpr std::uint32_t kMaxHashes = 1U << 20U;
constexpr std::uint32_t kMaxTokens = 1U << 26U;
constexpr std::uint32_t kMaxModels = 4096;

enum class Use { Refused, Unattached, Fine };

Use may_use(HostContext& context, std::uint64_t endpoint, const char* what) {
    if (!context.may_use_event_service(what)) {
        return Use::Refused;
    }
    if (!context.event_side().endpoints.contains(endpoint)) {
        context.count_defect("speaks of an endpoint it is not attached to");
        return Use::Unattached;
    }
    return Use::Fine;
}

// A copy of our own size; what the plugin's kind lacks is zero. Null or too short: false.
template <class T>
bool take(T& out, const T* from, std::size_t required) noexcept {
    out = T{};
    if (from == nullptr || from->size < required) {
        return false;
    }
    std::memcpy(&out, from, std::min<std::size_t>(from->size, sizeof(T)));
    out.size = sizeof(T);
    return true;
}

void load(const sluice_host* host, const sluice_load* from) noexcept {
    HostContext& context = HostContext::of(host);
    sluice_load load{};
    if (!take(load, from, offsetof(sluice_load, hit_tokens) + sizeof load.hit_tokens)) {
        context.count_defect("load sample unusable");
    } else if (may_use(context, load.endpoint, "load off the event thread") == Use::Fine) {
        context.runtime().sink().load(load);
    }
}

void health(const sluice_host* host, std::uint64_t endpoint, std::uint32_t state,
            sluice_str why) noexcept {
    HostContext& context = HostContext::of(host);
    if (may_use(context, endpoint, "health off the event thread") != Use::Fine) {
        return;
    }
    if (state < SLUICE_HEALTH_READY || state > SLUICE_HEALTH_DOWN) {
        context.count_defect("health state unknown");
        return;
    }
    context.runtime().sink().health(endpoint, state, view(why));
}

void facts(const sluice_host* host, const sluice_engine_facts* from) noexcept {
    HostContext& context = HostContext::of(host);
    sluice_engine_facts facts{};
    if (!take(facts, from, offsetof(sluice_engine_facts, version) + sizeof facts.version)) {
        context.count_defect("engine facts unusable");
    } else if (may_use(context, facts.endpoint, "facts off the event thread") == Use::Fine) {
        context.runtime().sink().facts(facts);
    }
}

void models(const sluice_host* host, std::uint64_t endpoint, sluice_array models) noexcept {
    HostContext& context = HostContext::of(host);
    if (may_use(context, endpoint, "models off the event thread") != Use::Fine) {
        return;
    }
    if (models.count > kMaxModels ||
        (models.count > 0 &&
         (models.base == nullptr || models.stride < sizeof(sluice_model_info)))) {
        context.count_defect("list of models unusable");
        return;
    }
    context.runtime().sink().models(endpoint, models);
}

// Why a batch cannot be applied; null = it can.
const char* batch_problem(const sluice_kv_batch& batch) noexcept {
    const sluice_array& events = batch.events;
    if (events.count > kMaxEvents) {
        return "more events than a batch may have";
    }
    if (events.count > 0 && (events.base == nullptr || events.stride < sizeof(sluice_kv_event))) {
        return "events are too short";
    }
    std::uint64_t hashes = 0;
    std::uint64_t tokens = 0;
    for (std::uint32_t i = 0; i < events.count; ++i) {
        const sluice_kv_event& e = *SLUICE_AT(sluice_kv_event, events, i);
        if (!SLUICE_HAS(sluice_kv_event, &e, salt) || e.type < SLUICE_KV_STORED ||
            e.type > SLUICE_KV_CLEARED) {
            return "an event of unknown type";
        }
        const bool is_any_tier = e.tier == SLUICE_ANY && e.type == SLUICE_KV_CLEARED;
        if (!is_any_tier && (e.tier < SLUICE_TIER_GPU || e.tier > SLUICE_TIER_REMOTE)) {
            return "an event of unknown tier";
        }
        if ((e.num_hashes > 0 && e.hashes == nullptr) ||
            (e.num_tokens > 0 && e.tokens == nullptr)) {
            return "an event without its hashes or tokens";
        }
        hashes += e.num_hashes;
        tokens += e.num_tokens;
    }
    return hashes > kMaxHashes || tokens > kMaxTokens ? "more blocks than a batch may have"
                                                      : nullptr;
}

sluice_status apply(const sluice_host* host, const sluice_kv_batch* from, std::uint32_t* unplaced,
                    sluice_error* err) noexcept {
    HostContext& context = HostContext::of(host);
    sluice_kv_batch batch{};
    if (!take(batch, from, offsetof(sluice_kv_batch, events) + sizeof batch.events)) {
        context.count_defect("kv batch unusable");
        return report(err, SLUICE_E_INVALID, "no batch");
    }
    switch (may_use(context, batch.endpoint, "kv apply off the event thread")) {
        case Use::Refused:
            return report(err, SLUICE_E_STATE, "not on the event thread of an active instance");
        case Use::Unattached:
            return report(err, SLUICE_E_NOT_FOUND, "not attached to that endpoint");
        case Use::Fine:
            break;
    }
    if (const char* problem = batch_problem(batch)) {
        context.count_defect(problem);
        return report(err, SLUICE_E_INVALID, problem);
    }
    return context.runtime().sink().apply(batch, unplaced, err);
}

void reset(const sluice_host* host, std::uint64_t endpoint, std::uint32_t dp_rank) noexcept {
    HostContext& context = HostContext::of(host);
    if (may_use(context, endpoint, "kv reset off the event thread") == Use::Fine) {
        context.runtime().sink().reset(endpoint, dp_rank);
    }
}

void report_signal(const sluice_host* host, const sluice_kv_report* from) noexcept {
    HostContext& context = HostContext::of(host);
    sluice_kv_report kv_report{};
    if (!take(kv_report, from, offsetof(sluice_kv_report, advice) + sizeof kv_report.advice) ||
        kv_report.state < SLUICE_KV_SAME || kv_report.state > SLUICE_KV_DEAD) {
        context.count_defect("kv report unusable");
    } else if (may_use(context, kv_report.endpoint, "kv report off the event thread") ==
               Use::Fine) {
        // A newer plugin may name a reason this gateway does not know.
        if (kv_report.why < SLUICE_WHY_NONE || kv_report.why > SLUICE_WHY_LEGACY) {
            kv_report.why = SLUICE_WHY_UNKNOWN;
        }
        if (kv_report.state == SLUICE_KV_REFUSED || kv_report.state == SLUICE_KV_LIVE) {
            const auto at = context.event_side().endpoints.find(kv_report.endpoint);
            context.runtime().attachments().judged(at->second.record,
                                                   kv_report.state == SLUICE_KV_REFUSED);
        }
        context.runtime().sink().report(kv_report);
    }
}

}  // namespace

const sluice_fleet_api& fleet_service() noexcept {
    static const sluice_fleet_api api{sizeof(sluice_fleet_api), 0, &load, &health, &facts, &models};
    return api;
}

const sluice_kv_api& kv_service() noexcept {
    static const sluice_kv_api api{sizeof(sluice_kv_api), 0, &apply, &reset, &report_signal};
    return api;
}

}  // namespace sluice::plugin
