#include "core/app/live.hpp"

#include "core/base/clock.hpp"
#include "core/flow/explain.hpp"
#include "core/json/writer.hpp"

namespace sluice::app {

Live::Live(flow::Shared& shared, flow::Conductor& conductor, plugin::Registry& registry,
           rules::RuleBook& book, const Workers& workers, const Settings& settings, Boot boot)
    : shared_(shared),
      conductor_(conductor),
      registry_(registry),
      book_(book),
      workers_(workers),
      settings_(std::make_shared<const Settings>(settings)),
      boot_(std::move(boot)) {}

admin::Readiness Live::ready() {
    admin::Readiness out;
    out.database_found = boot_.is_database_found;
    out.set_aside = boot_.set_aside;
    out.degraded = !boot_.set_aside.empty();
    if (is_draining_.load(std::memory_order_relaxed)) {
        out.ready = false;
        out.reasons.emplace_back("draining: the gateway is stopping");
    }
    for (const std::string& vip : conductor_.unbound()) {
        out.ready = false;
        out.reasons.push_back("listener_unavailable: " + vip);
    }
    for (const rules::Dormant& rule : book_.dormant()) {
        out.degraded = true;
        out.reasons.push_back("rule_not_in_force: rule " + rule.id +
                              " is stored but not in force: " + rule.why.message);
    }
    if (!boot_.set_aside.empty()) {
        out.reasons.push_back("database_set_aside: the database was damaged and set aside as " +
                              boot_.set_aside);
    }
    return out;
}

std::string Live::plugins_json() {
    std::string out;
    json::Writer w(out);
    w.array([&] {
        for (const plugin::FileReport& file : registry_.reports()) {
            w.object([&] {
                w.member("path", file.path);
                w.member("state", to_string(file.state));
                w.member("reason", file.reason);
                w.member("sdk_version", file.sdk_version);
                w.key("plugins");
                w.array([&] {
                    for (const plugin::Descriptor& p : file.plugins) {
                        w.object([&] {
                            w.member("id", p.id);
                            w.member("alias", p.alias);
                            w.member("name", p.name);
                            w.member("summary", p.summary);
                            w.member("version", p.version);
                            w.member("license", p.license);
                            w.key("provides");
                            w.array([&] {
                                for (const std::string& extension : p.provides) {
                                    w.value(extension);
                                }
                            });
                        });
                    }
                });
            });
        }
    });
    return out;
}

std::string Live::flows_json(const admin::FlowFilter& filter) {
    std::string rule = filter.rule;
    for (const rules::RulePtr& known : book_.table()->rules()) {
        if (!rule.empty() && known->name == rule) {
            rule = known->id;
            break;
        }
    }
    return shared_.ring.to_json({rule, filter.model, filter.outcome, filter.limit});
}

Result<std::string> Live::explain(std::string_view json) {
    return flow::explain(shared_, json);
}

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
        for (const kv::HolderStats& holder : service->kv->index().stats()) {
            out.total += holder.endpoint == member.endpoint->id() ? holder.gpu_blocks : 0;
        }
        return out;
    }
    return Error{Code::NotFound, "no such endpoint"};
}

admin::RuleLive Live::rule_status(const rules::RulePtr& rule) {
    admin::RuleLive out;
    const route::ServicePtr service = service_of(rule);
    if (!service) {
        return out;
    }
    const std::uint64_t now = now_us();
    std::vector<kv::HolderStats> stats;
    if (service->kv) {
        stats = service->kv->index().stats();
    }
    for (std::size_t i = 0; i < service->pool->size(); ++i) {
        const fleet::Member& member = (*service->pool)[i];
        admin::EndpointLive live;
        const fleet::Excluded why = service->pool->excluded(i, {});
        live.inactive = why == fleet::Excluded::Down;
        live.state = why == fleet::Excluded::Down       ? "inactive"
                     : why == fleet::Excluded::Draining ? "draining"
                                                        : "active";
        live.reason = service->pool->reason(i);
        live.inflight = member.endpoint->inflight();
        if (service->kv) {
            const route::KvMember& kv = *service->kv_members[i];
            admin::KvLive words;
            words.signal = kv.signal(rule->kv.warmup_sec, now);
            const auto said = kv.words();
            words.attestation = said->attestation.empty() ? "unproven" : said->attestation;
            words.reason = words.signal == "ok" ? "" : said->reason;
            for (const kv::HolderStats& holder : stats) {
                words.blocks += holder.endpoint == kv.endpoint() ? holder.gpu_blocks : 0;
            }
            if (kv.last_event_us() != 0) {
                words.last_event_age_ms = (now - std::min(now, kv.last_event_us())) / 1000U;
            }
            live.kv = std::move(words);
        }
        out.endpoints.emplace(member.spec.id, std::move(live));
    }
    if (service->kv && service->pool->size() > 0) {
        out.effective["kvBlockSize"] = std::to_string(service->block_tokens(0));
    }
    return out;
}

}  // namespace sluice::app
