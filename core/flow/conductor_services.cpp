// How the conductor makes the Service of a rule from what the rule had before.
#include <algorithm>
#include <set>

#include "core/base/log.hpp"
#include "core/flow/conductor.hpp"

namespace sluice::flow {
namespace {

// A selector that never finds anybody: the rule's plugin could not be made. Requests get a 503 and
// the reason is in the log.
class NoSelector final : public route::Selector {
public:
    Choice choose(const sluice_request&, std::span<sluice_candidate>) const noexcept override {
        return {};
    }
    void observe(const sluice_outcome&) const noexcept override {}
};

route::KvCounters counters_of(const route::Totals& totals) {
    route::KvCounters out;
    auto& registry = metrics::registry();
    for (const auto& endpoint : totals.endpoints) {
        out.hits.push_back(&endpoint->kv_hits);
        out.spills.push_back(&endpoint->kv_spills);
        out.cold_seeds.push_back(&endpoint->kv_cold_seeds);
    }
    out.zero_hits = &totals.rule->kv_zero_hits;
    out.fallthrough = &registry.counter("loxilb_pd_kv_tier15_fallthrough_total",
                                        "KV-exact attempts that fell through.");
    // The reasons that dashboards know are there before they occur.
    for (const char* reason :
         {"mode_off", "warmup", "text_empty", "model_empty", "tokenize", "hashes", "no_worker",
          "excluded", "shallow", "unproven", "mismatch", "stale"}) {
        registry.counter("loxilb_pd_kv_tier15_miss_reason_total",
                         "KV-exact attempts that fell through, by reason.", {{"reason", reason}});
    }
    const auto echo = [&registry](const char* result) {
        return &registry.counter("loxilb_ai_kv_attest_echo_total",
                                 "Answers by whether the engine had cached what was predicted.",
                                 {{"result", result}});
    };
    out.echo_agree = echo("agree");
    out.echo_differ = echo("differ");
    out.echo_silent = echo("silent");
    return out;
}

const fleet::Member* member_of(const route::ServicePtr& service, std::uint64_t endpoint) {
    if (service) {
        for (const fleet::Member& member : service->pool->members()) {
            if (member.endpoint->id() == endpoint) {
                return &member;
            }
        }
    }
    return nullptr;
}

}  // namespace

fleet::EndpointPtr Conductor::endpoint(const rules::EndpointSpec& spec) {
    auto& slot = endpoints_[{spec.ip, spec.port}];
    if (auto known = slot.lock()) {
        return known;
    }
    auto made = std::make_shared<fleet::Endpoint>(next_endpoint_id_++, spec.ip, spec.port);
    made->set_host_state(host_states_.of(spec.ip, spec.port));
    slot = made;
    return made;
}

std::shared_ptr<const route::Selector> Conductor::selector_of(const rules::RulePtr& rule,
                                                              const fleet::Pool& pool) {
    auto instance = plugins_.selector(*rule);
    if (!instance) {
        log::error("selector cannot be made",
                   {{"rule", rule->id}, {"reason", instance.error().what}});
        return std::make_shared<NoSelector>();
    }
    std::vector<sluice_candidate> rows(pool.size());
    for (std::size_t i = 0; i < pool.size(); ++i) {
        rows[i].size = sizeof rows[i];
        rows[i].endpoint = pool[i].endpoint->id();
        rows[i].dp_rank = SLUICE_ANY;
        rows[i].roles = SLUICE_ROLE_WHOLE;
        rows[i].weight = pool[i].spec.weight;
        rows[i].kv_used_ratio = -1;
        rows[i].load_age_us = UINT64_MAX;
        const std::string& name = pool[i].endpoint->name();
        rows[i].name = {name.data(), name.size()};
    }
    auto view = plugin::SelectorView::prepare({{*instance, 1.0F}}, rows);
    if (!view) {
        log::error("selector cannot be made", {{"rule", rule->id}, {"reason", view.error().what}});
        return std::make_shared<NoSelector>();
    }
    return make_selector(std::move(*view));
}

void Conductor::take_plane(const rules::Rule& rule, Kept& kept, route::Service& service) {
    if (rule.kv.exact_mode == 0) {
        kept.plane.reset();
        return;
    }
    if (!kept.plane) {
        kept.plane = std::make_shared<route::KvPlane>(
            kv::IndexOptions{.max_blocks_per_endpoint = rule.kv.max_blocks});
    } else if (kept.rule->kv.max_blocks != rule.kv.max_blocks) {
        runtime_.events().post_or_run(
            [plane = kept.plane, bound = rule.kv.max_blocks] { plane->set_max_blocks(bound); });
    }
    kept.plane->declare(rule.kv.block_tokens.value_or(0));
    service.kv = kept.plane;
    for (const fleet::Member& member : service.pool->members()) {
        service.kv_members.push_back(kept.plane->member(member.endpoint->id()));
    }
}

void Conductor::take_pd(const rules::Rule& rule, Kept& kept, route::Service& service) {
    if (!rule.pd.is_on) {
        kept.pd.reset();
        return;
    }
    if (!kept.pd) {
        kept.pd = std::make_shared<route::PdState>();
    }
    kept.pd->admission->set_limits({rule.pd.max_inflight, rule.pd.queue_depth});
    std::set<std::uint64_t> members;
    for (const fleet::Member& member : service.pool->members()) {
        members.insert(member.endpoint->id());
    }
    const auto stays = [&members](std::uint64_t id) {
        return members.contains(id);
    };
    kept.pd->sessions.retain(stays);
    kept.pd->prefixes.retain(stays);
    service.pd = kept.pd;
}

void Conductor::take_key(const rules::Rule& rule, Kept& kept) {
    if (rule.auth_file.empty()) {
        kept.key.reset();
        return;
    }
    if (!kept.key || kept.key->path() != rule.auth_file) {
        kept.key = std::make_shared<fleet::BackendKey>(rule.auth_file);
    }
    refresh_key(kept, true);
}

// The adapter's own calls carry the key too.
void Conductor::refresh_key(Kept& kept, bool is_forced) {
    const auto changed = kept.key->refresh(is_forced);
    if (changed && *changed) {
        for (const auto& [id, watched] : kept.attachments) {
            watched.attachment->set_authorization(*kept.key->authorization());
        }
    }
    // Said once: the file is looked at every few seconds.
    if (!changed && !kept.is_key_lost) {
        log::error("backend key cannot be read", {{"reason", changed.error().what}});
    }
    kept.is_key_lost = !changed;
}

// An edit of other fields keeps what a breaker knows, one of its numbers too.
fleet::BreakerPtr Conductor::breaker_of(const rules::Rule& rule, const rules::EndpointSpec& spec,
                                        Kept& kept) {
    if (!rule.breaker.is_on) {
        kept.breakers.erase(spec.id);
        return nullptr;
    }
    fleet::BreakerPtr& breaker = kept.breakers[spec.id];
    if (breaker) {
        breaker->configure(rule.breaker);
    } else {
        breaker = std::make_shared<fleet::Breaker>(rule.id, spec.name(), rule.breaker);
    }
    return breaker;
}

std::shared_ptr<route::Service> Conductor::make_service(const rules::RulePtr& rule, Kept& kept) {
    auto service = std::make_shared<route::Service>();
    service->rule = rule;
    std::vector<fleet::Member> members;
    auto names = std::make_shared<route::Names>();
    names->rule = rule->id;
    for (const rules::EndpointSpec& spec : rule->endpoints) {
        const fleet::EndpointPtr live = endpoint(spec);
        const fleet::Member* before = member_of(kept.service, live->id());
        const fleet::ProbeState* known = before == nullptr ? nullptr : before->probe.get();
        members.push_back({spec, live, prober_.probe(rules::probe_of(*rule, spec), known),
                           breaker_of(*rule, spec, kept)});
        names->endpoints.push_back(members.back().endpoint->name());
        // The address was checked with the rule.
        service->addresses.push_back(net::Address::parse_ip(spec.ip, spec.port).value());
    }
    std::erase_if(kept.breakers, [&](const auto& entry) {
        return std::none_of(
            rule->endpoints.begin(), rule->endpoints.end(),
            [&](const rules::EndpointSpec& spec) { return spec.id == entry.first; });
    });
    service->names = std::move(names);
    service->pool = std::make_shared<const fleet::Pool>(std::move(members));
    service->selector = selector_of(rule, *service->pool);
    service->totals = totals_of(*rule, kept);
    service->kv_counters = counters_of(service->totals);
    service->gate.is_restricted = !rule->allowed_sources.empty();
    service->gate.sources = route::read_sources(rule->allowed_sources);
    service->gate.occupancy = kept.occupancy;
    take_key(*rule, kept);
    service->key = kept.key;
    take_engine(*rule, kept, *service);
    take_reader(*rule, kept);
    take_plane(*rule, kept, *service);
    take_pd(*rule, kept, *service);
    kept.rule = rule;
    return service;
}

}  // namespace sluice::flow
