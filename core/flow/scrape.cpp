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
    Family rejects{
        "loxilb_kv_subscriber_wire_reject_total", "Batches that were refused.", Kind::Counter, {}};
    Family memory{"loxilb_kv_index_bytes", "Memory of the block index.", Kind::Gauge, {}};
};

void scrape_kv(const route::Service& service, KvFamilies& out) {
    const std::string number = std::to_string(service.rule->number);
    const std::vector<kv::HolderStats> stats = service.kv->index().stats();
    add(out.memory, {{"service", number}},
        static_cast<double>(service.kv->index().memory().total()));
    const std::uint64_t now = now_us();
    const std::uint64_t wall = wall_us();
    for (std::size_t i = 0; i < service.pool->size(); ++i) {
        const route::KvMember& member = *service.kv_members[i];
        const std::string ep_idx = std::to_string((*service.pool)[i].spec.ep_idx);
        std::uint64_t blocks = 0;
        std::uint64_t evicted = 0;
        for (const kv::HolderStats& holder : stats) {
            if (holder.endpoint == member.endpoint()) {
                blocks += holder.gpu_blocks;
                evicted += holder.evictions;
            }
        }
        const Labels by_ep{{"service", number}, {"ep", ep_idx}};
        add(out.blocks, {{"service", number}, {"ep_idx", ep_idx}}, static_cast<double>(blocks));
        const bool is_live = member.state() == SLUICE_KV_LIVE;
        add(out.connected, by_ep, is_live || member.state() == SLUICE_KV_UNPROVEN ? 1 : 0);
        add(out.fresh, by_ep, is_live ? 1 : 0);
        const std::uint64_t last = member.last_event_us();
        const std::uint64_t age = last == 0 ? 0 : now - std::min(now, last);
        add(out.last_event, by_ep, last == 0 ? 0 : static_cast<double>(wall - age) * 1e-6);
        add(out.evictions, by_ep, static_cast<double>(evicted));
        Labels reject = by_ep;
        reject.emplace_back("reason", "malformed");
        add(out.rejects, std::move(reject), static_cast<double>(member.rejects()));
    }
}

}  // namespace

void scrape(const Directory& directory, std::vector<Family>& out) {
    Family rules{"loxilb_lb_rules", "Rules in force.", Kind::Gauge, {}};
    Family healthy{"loxilb_healthy_endpoints", "Endpoints that may be chosen.", Kind::Gauge, {}};
    Family unhealthy{"loxilb_unhealthy_endpoints", "Endpoints that may not.", Kind::Gauge, {}};
    Family info{"loxilb_pd_ep_info", "Which endpoint has which index.", Kind::Gauge, {}};
    Family engine{"loxilb_ai_engine_info", "The engine of a rule.", Kind::Gauge, {}};
    KvFamilies kv;
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
    }
    add(rules, {}, static_cast<double>(directory.services.size()));
    add(healthy, {}, up);
    add(unhealthy, {}, down);
    for (Family* family : {&rules, &healthy, &unhealthy, &info, &engine, &kv.blocks, &kv.connected,
                           &kv.fresh, &kv.last_event, &kv.evictions, &kv.rejects, &kv.memory}) {
        out.push_back(std::move(*family));
    }
}

}  // namespace sluice::flow
