#include "core/flow/scrape.hpp"

#include <string>

#include "core/base/clock.hpp"

namespace sluice::flow {
namespace {

using metrics::Family;
using metrics::Kind;
using metrics::Labels;

void add(Family& family, Labels labels, double value) {
    metrics::Sample sample;
    sample.labels = std::move(labels);
    sample.value = value;
    family.samples.push_back(std::move(sample));
}

struct KvFamilies {
    Family blocks{"loxilb_pd_kv_blocks", "Blocks known to be held, by endpoint.", Kind::Gauge, {}};
    Family connected{
        "loxilb_kv_subscriber_connected", "1 while KV events are live.", Kind::Gauge, {}};
    Family fresh{
        "loxilb_kv_inventory_fresh", "1 while the inventory can be trusted.", Kind::Gauge, {}};
    Family last_event{"loxilb_kv_subscriber_last_event_timestamp_seconds",
                      "When the last KV event came.",
                      Kind::Gauge,
                      {}};
    Family evictions{"loxilb_kv_inv_cap_evictions_total",
                     "Blocks dropped at the inventory's bound.",
                     Kind::Counter,
                     {}};
    Family rejects{"loxilb_kv_subscriber_wire_reject_total",
                   "Events that could not be used, by reason.",
                   Kind::Counter,
                   {}};
    Family losses{"loxilb_kv_subscriber_loss_total",
                  "Times events were missed or inventories emptied, by reason.",
                  Kind::Counter,
                  {}};
    Family reconnects{"loxilb_kv_subscriber_reconnect_total",
                      "Times the source of KV events answered again.",
                      Kind::Counter,
                      {}};
    Family errors{"loxilb_kv_subscriber_recv_error_total",
                  "Times the source of KV events did not answer.",
                  Kind::Counter,
                  {}};
    Family signal{"loxilb_kv_signal_info",
                  "The signal of KV events of an endpoint, and why it is so.",
                  Kind::Gauge,
                  {}};
    Family ranks{"loxilb_kv_ranks", "Inventories kept for an endpoint.", Kind::Gauge, {}};
    Family memory{"loxilb_kv_index_bytes", "Memory of the block index.", Kind::Gauge, {}};
};

struct CountOf {
    std::uint32_t why;
    const char* reason;
};
constexpr CountOf kRejects[] = {
    {SLUICE_WHY_MALFORMED, "malformed"},   {SLUICE_WHY_BLOCK_SIZE, "block_size"},
    {SLUICE_WHY_ALGORITHM, "hash_algo"},   {SLUICE_WHY_UNKNOWN, "unknown"},
    {SLUICE_WHY_NOT_LOOKUP, "not_lookup"}, {SLUICE_WHY_PARTIAL, "partial"},
};
constexpr CountOf kLosses[] = {
    {SLUICE_WHY_GAP, "gap"},
    {SLUICE_WHY_RESTART, "restart"},
    {SLUICE_WHY_LATE_JOIN, "late_join"},
    {SLUICE_WHY_COMPETITOR, "second_consumer"},
};

Labels with(const Labels& labels, const char* name, std::string value) {
    Labels out = labels;
    out.emplace_back(name, std::move(value));
    return out;
}

// Adapters choose their words; a label has the shape of one.
std::string label_of(const std::string& reason) {
    std::string out = reason.substr(0, 64);
    for (char& c : out) {
        const bool is_kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ',';
        c = is_kept ? c : '_';
    }
    return out;
}

void scrape_counts(const route::KvMember& member, const Labels& by_ep, KvFamilies& out) {
    for (const CountOf& one : kRejects) {
        add(out.rejects, with(by_ep, "reason", one.reason),
            static_cast<double>(member.count_of(one.why)));
    }
    add(out.rejects, with(by_ep, "reason", "refused"), static_cast<double>(member.rejects()));
    for (const CountOf& one : kLosses) {
        add(out.losses, with(by_ep, "reason", one.reason),
            static_cast<double>(member.count_of(one.why)));
    }
    add(out.reconnects, by_ep, static_cast<double>(member.reconnects()));
    add(out.errors, by_ep, static_cast<double>(member.count_of(SLUICE_WHY_UNREACHABLE)));
}

void scrape_kv(const route::Service& service, KvFamilies& out) {
    const std::string number = std::to_string(service.rule->number);
    const std::vector<kv::HolderStats> stats = service.kv->index().stats();
    add(out.memory, {{"service", number}},
        static_cast<double>(service.kv->index().memory().total()));
    const std::uint64_t now = now_us();
    const std::uint64_t wall = wall_us();
    for (std::size_t i = 0; i < service.pool->size(); ++i) {
        if (!service.is_kv_watched(i)) {
            continue;
        }
        const route::KvMember& member = *service.kv_members[i];
        const std::string ep_idx = std::to_string((*service.pool)[i].spec.ep_idx);
        std::uint64_t blocks = 0;
        std::uint64_t evicted = 0;
        std::uint64_t ranks = 0;
        for (const kv::HolderStats& holder : stats) {
            if (holder.endpoint == member.endpoint()) {
                blocks += holder.gpu_blocks;
                evicted += holder.evictions;
                ranks += 1;
            }
        }
        const Labels by_ep{{"service", number}, {"ep", ep_idx}};
        add(out.blocks, {{"service", number}, {"ep_idx", ep_idx}}, static_cast<double>(blocks));
        const bool is_connected = member.is_connected();
        add(out.connected, by_ep, is_connected ? 1 : 0);
        add(out.fresh, by_ep, is_connected && member.state() == SLUICE_KV_LIVE ? 1 : 0);
        add(out.ranks, by_ep, static_cast<double>(ranks));
        const route::KvWords words = member.words();
        Labels signal = by_ep;
        const std::string_view word = member.signal(service.rule->kv.warmup_sec, now);
        signal.emplace_back("signal", std::string(word));
        signal.emplace_back("reason",
                            label_of(word == "ok" || word == "quiet" ? words.note : words.reason));
        add(out.signal, std::move(signal), 1);
        scrape_counts(member, by_ep, out);
        const std::uint64_t last = member.last_event_us();
        const std::uint64_t age = last == 0 ? 0 : now - std::min(now, last);
        add(out.last_event, by_ep, last == 0 ? 0 : static_cast<double>(wall - age) * 1e-6);
        add(out.evictions, by_ep, static_cast<double>(evicted));
    }
}

// Of the KV tier's choices; of every rule, so that a series is there before it counts.
struct TierFamilies {
    Family hits{"loxilb_pd_kv_tier15_hits_total",
                "Requests routed to the longest prefix.",
                Kind::Counter,
                {}};
    Family spills{"loxilb_pd_kv_tier15_spills_total",
                  "Requests whose best endpoint was over its load bound.",
                  Kind::Counter,
                  {}};
    Family cold_seeds{"loxilb_pd_kv_tier15_cold_seeds_total",
                      "Requests sent to fill a cold endpoint.",
                      Kind::Counter,
                      {}};
    Family zero_hits{"loxilb_pd_kv_zero_hit_watchdog_total",
                     "Times that many prompts in a row matched no block although blocks are held.",
                     Kind::Counter,
                     {}};
};

void scrape_tier(const route::Service& service, TierFamilies& out) {
    const std::string number = std::to_string(service.rule->number);
    for (std::size_t i = 0; i < service.totals.endpoints.size(); ++i) {
        const route::EndpointTotals& totals = *service.totals.endpoints[i];
        const Labels labels{{"service", number},
                            {"ep_idx", std::to_string((*service.pool)[i].spec.ep_idx)}};
        add(out.hits, labels, totals.kv_hits.value());
        add(out.spills, labels, totals.kv_spills.value());
        add(out.cold_seeds, labels, totals.kv_cold_seeds.value());
    }
    add(out.zero_hits, {{"service_id", number}}, service.totals.rule->kv_zero_hits.value());
}

struct PdFamilies {
    Family sessions{
        "loxilb_pd_sessions_active", "Sessions that have a pair of endpoints.", Kind::Gauge, {}};
    Family prefixes{
        "loxilb_pd_trie_nodes", "Pieces of prompts whose endpoint is known.", Kind::Gauge, {}};
    Family leases{"loxilb_pd_leases_outstanding",
                  "Hand-offs a prefill endpoint holds blocks for.",
                  Kind::Gauge,
                  {}};
    Family ended{"loxilb_pd_leases_total", "Hand-offs by how they ended.", Kind::Counter, {}};
    Family waiting{"loxilb_pd_admission_waiting",
                   "Requests that wait for a prefill endpoint.",
                   Kind::Gauge,
                   {}};
    double num_sessions = 0;
    double num_prefixes = 0;
};

void scrape_pd(const route::Service& service, PdFamilies& out) {
    const std::string number = std::to_string(service.rule->number);
    const std::uint64_t now = now_us();
    route::PdState& state = *service.pd;
    out.num_sessions += static_cast<double>(state.sessions.size());
    out.num_prefixes += static_cast<double>(state.prefixes.size());
    for (const fleet::Member& member : service.pool->members()) {
        if (member.spec.role != rules::kRolePrefill) {
            continue;
        }
        const Labels labels{{"service", number}, {"ep_idx", std::to_string(member.spec.ep_idx)}};
        const std::uint64_t id = member.endpoint->id();
        add(out.leases, labels, static_cast<double>(state.handoffs->outstanding(id, now)));
        add(out.waiting, labels, static_cast<double>(state.admission->queued(id)));
    }
    const route::HandoffCounts counts = state.handoffs->counts(now);
    const auto ended = [&](const char* how, std::uint64_t n) {
        add(out.ended, {{"service", number}, {"end", how}}, static_cast<double>(n));
    };
    ended("read", counts.read);
    ended("released", counts.released);
    ended("expired", counts.expired);
    ended("unused", counts.unused);
}

}  // namespace

void scrape(const Directory& directory, std::vector<Family>& out) {
    Family rules{"loxilb_lb_rules", "Rules in force.", Kind::Gauge, {}};
    Family healthy{"loxilb_healthy_endpoints", "Endpoints that may be chosen.", Kind::Gauge, {}};
    Family unhealthy{"loxilb_unhealthy_endpoints", "Endpoints that may not.", Kind::Gauge, {}};
    Family info{"loxilb_pd_ep_info", "Which endpoint has which index.", Kind::Gauge, {}};
    Family engine{"loxilb_ai_engine_info", "The engine of a rule.", Kind::Gauge, {}};
    KvFamilies kv;
    TierFamilies tier;
    PdFamilies pd;
    double up = 0;
    double down = 0;
    const std::uint64_t now = now_us();
    for (const route::ServicePtr& service : directory.services) {
        const std::string number = std::to_string(service->rule->number);
        add(engine, {{"service", number}, {"engine", service->rule->engine}}, 1);
        for (std::size_t i = 0; i < service->pool->size(); ++i) {
            const fleet::Member& member = (*service->pool)[i];
            (service->pool->excluded(i, {}, now) == fleet::Excluded::No ? up : down) += 1;
            add(info,
                {{"service", number},
                 {"ep_idx", std::to_string(member.spec.ep_idx)},
                 {"ep", member.endpoint->name()}},
                1);
        }
        if (service->kv) {
            scrape_kv(*service, kv);
        }
        scrape_tier(*service, tier);
        if (service->pd) {
            scrape_pd(*service, pd);
        }
    }
    add(rules, {}, static_cast<double>(directory.services.size()));
    add(healthy, {}, up);
    add(unhealthy, {}, down);
    add(pd.sessions, {}, pd.num_sessions);
    add(pd.prefixes, {}, pd.num_prefixes);
    for (Family* family :
         {&rules,         &healthy,      &unhealthy,   &info,          &engine,
          &kv.blocks,     &kv.connected, &kv.fresh,    &kv.last_event, &kv.evictions,
          &kv.rejects,    &kv.memory,    &kv.losses,   &kv.reconnects, &kv.errors,
          &kv.signal,     &kv.ranks,     &pd.sessions, &pd.prefixes,   &pd.leases,
          &pd.ended,      &pd.waiting,   &tier.hits,   &tier.spills,   &tier.cold_seeds,
          &tier.zero_hits}) {
        out.push_back(std::move(*family));
    }
}

}  // namespace sluice::flow
