// How rules fare, as the management interface asks for it.
#include <algorithm>

#include "core/admin/condition.hpp"
#include "core/app/live.hpp"
#include "core/base/clock.hpp"

namespace sluice::app {
namespace {

using Stats = std::vector<kv::HolderStats>;

admin::KvLive kv_of(const route::KvMember& kv, const Stats& stats, const rules::Rule& rule,
                    std::uint64_t now) {
    admin::KvLive out;
    out.signal = kv.signal(rule.kv.warmup_sec, now);
    const route::KvWords said = kv.words();
    out.attestation = said.attestation.empty() ? "unproven" : said.attestation;
    const bool is_fine = out.signal == "ok" || out.signal == "quiet";
    out.reason = is_fine && !said.note.empty() ? said.note : out.signal == "ok" ? "" : said.reason;
    if (!out.reason.empty()) {
        out.detail = said.detail;
        out.advice = said.advice;
    }
    out.tokens_agree = kv.tokens_agree();
    for (const kv::HolderStats& holder : stats) {
        out.blocks += holder.endpoint == kv.endpoint() ? holder.gpu_blocks : 0;
    }
    if (kv.last_event_us() != 0) {
        out.last_event_age_ms = (now - std::min(now, kv.last_event_us())) / 1000U;
    }
    return out;
}

const char* state_of(fleet::Excluded why) {
    switch (why) {
        case fleet::Excluded::Down:
        case fleet::Excluded::Open:
            return "inactive";
        case fleet::Excluded::Disabled:
            return "disabled";
        case fleet::Excluded::Draining:
            return "draining";
        default:
            return "active";
    }
}

admin::EndpointLive endpoint_of(const route::Service& service, std::size_t i, std::uint64_t now) {
    const fleet::Member& member = (*service.pool)[i];
    const fleet::Excluded why = service.pool->excluded(i, {}, now);
    admin::EndpointLive out;
    out.state = state_of(why);
    out.inactive = why == fleet::Excluded::Down || why == fleet::Excluded::Disabled ||
                   why == fleet::Excluded::Open;
    out.reason = service.pool->reason(i, now);
    if (member.breaker) {
        out.breaker = to_string(member.breaker->state(now));
    }
    out.inflight = member.endpoint->inflight();
    const bool has_flipped =
        member.breaker && member.breaker->state(now) != fleet::BreakerState::Closed;
    out.is_watched =
        member.probe || member.endpoint->health() != fleet::Health::Unknown || has_flipped;
    if (i < service.totals.endpoints.size()) {
        const route::EndpointTotals& totals = *service.totals.endpoints[i];
        out.requests = totals.requests.load(std::memory_order_relaxed);
        out.bytes = totals.bytes.load(std::memory_order_relaxed);
    }
    return out;
}

}  // namespace

route::ServicePtr Live::service_of(const rules::RulePtr& rule) const {
    const auto directory = shared_.directory.get();
    for (const route::ServicePtr& service : directory->services) {
        if (service->rule->number == rule->number) {
            return service;
        }
    }
    return nullptr;
}

Result<admin::Inventory> Live::inventory(const rules::RulePtr& rule,
                                         const rules::EndpointSpec& endpoint, std::size_t limit) {
    const route::ServicePtr service = service_of(rule);
    if (!service || !service->kv) {
        return Error{Code::Unavailable, "the rule has no block index (kvExactMode 0)"};
    }
    for (const fleet::Member& member : service->pool->members()) {
        if (member.spec.ep_idx != endpoint.ep_idx) {
            continue;
        }
        admin::Inventory out;
        out.hash_algo = rule->kv.hash_algo.value_or("");
        out.blocks = service->kv->index().list(member.endpoint->id(), limit);
        const Stats stats = service->kv->index().stats();
        for (const kv::HolderStats& holder : stats) {
            if (holder.endpoint == member.endpoint->id()) {
                out.total += holder.gpu_blocks;
                out.ranks.push_back({holder.rank, holder.gpu_blocks});
            }
        }
        std::sort(out.ranks.begin(), out.ranks.end(),
                  [](const auto& a, const auto& b) { return a.rank < b.rank; });
        for (const route::KvMemberPtr& known : service->kv_members) {
            if (known->endpoint() == member.endpoint->id()) {
                const admin::KvLive live = kv_of(*known, stats, *rule, now_us());
                out.signal = live.signal;
                out.admission = admin::admission_text(live, known->state() == SLUICE_KV_WAITING);
            }
        }
        return out;
    }
    return Error{Code::NotFound, "no such endpoint"};
}

// Source: metrics contract, section 3, attestation.
void Live::scrape(std::vector<metrics::Family>& out) {
    conductor_.republisher().scrape(out);
    metrics::Family states{"loxilb_ai_kv_attest_state",
                           "How far KV-exact routing of a rule can be trusted.",
                           metrics::Kind::Gauge,
                           {}};
    metrics::Family faults{"loxilb_ai_kv_enforcement_fault",
                           "1 while a rule's KV events cannot be routed by.",
                           metrics::Kind::Gauge,
                           {}};
    const auto directory = shared_.directory.get();
    for (const route::ServicePtr& service : directory->services) {
        if (!service->kv) {
            continue;
        }
        const std::string rule = std::to_string(service->rule->number);
        const auto now = admin::kv_exact_state(*service->rule, rule_status(service->rule));
        metrics::Sample state;
        state.labels = {{"rule", rule}, {"state", std::string(now.state)}};
        state.value = 1;
        states.samples.push_back(std::move(state));
        metrics::Sample fault;
        fault.labels = {{"rule", rule}};
        fault.value = now.state == "ENFORCEMENT_FAULT" ? 1 : 0;
        faults.samples.push_back(std::move(fault));
    }
    out.push_back(std::move(states));
    out.push_back(std::move(faults));
}

admin::RuleLive Live::rule_status(const rules::RulePtr& rule) {
    admin::RuleLive out;
    const route::ServicePtr service = service_of(rule);
    if (!service) {
        return out;
    }
    const std::uint64_t now = now_us();
    const Stats stats = service->kv ? service->kv->index().stats() : Stats{};
    for (std::size_t i = 0; i < service->pool->size(); ++i) {
        const fleet::Member& member = (*service->pool)[i];
        admin::EndpointLive live = endpoint_of(*service, i, now);
        if (service->pd) {
            live.queued = service->pd->admission->queued(member.endpoint->id());
        }
        if (service->is_kv_watched(i)) {
            live.kv = kv_of(*service->kv_members[i], stats, *rule, now);
        }
        out.changed_us = std::max(out.changed_us, member.endpoint->changed_us());
        if (member.probe) {
            out.changed_us = std::max(out.changed_us, member.probe->changed_us());
        }
        out.endpoints.emplace(member.spec.id, std::move(live));
    }
    if (service->kv && service->pool->size() > 0) {
        out.effective["kvBlockSize"] = std::to_string(service->block_tokens(0));
    }
    out.is_listening = conductor_.is_bound({rule->key.ip, rule->key.port});
    if (const route::RuleTotals* totals = service->totals.rule.get()) {
        out.changed_us = std::max(out.changed_us, totals->since_us);
        out.active = totals->active.load(std::memory_order_relaxed);
        out.requests = totals->requests.load(std::memory_order_relaxed);
        out.bytes_in = totals->bytes_in.load(std::memory_order_relaxed);
        out.bytes_out = totals->bytes_out.load(std::memory_order_relaxed);
    }
    return out;
}

std::vector<admin::AddressLoad> Live::address_loads() {
    std::vector<admin::AddressLoad> out;
    for (const auto& [endpoint, is_named] : conductor_.addresses()) {
        out.push_back({endpoint->ip(), endpoint->port(), endpoint->inflight(), is_named});
    }
    return out;
}

std::string Live::event_sources(const rules::RulePtr& rule, const rules::EndpointSpec& endpoint) {
    return conductor_.republisher().sources_json(rule->number, endpoint.id);
}

}  // namespace sluice::app
