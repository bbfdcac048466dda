// What outlives rules in the running gateway: host states, health objects, what was counted.
#include "core/base/log.hpp"
#include "core/flow/conductor.hpp"

namespace sluice::flow {

void Conductor::setting(std::string_view name, std::string_view value) {
    const std::lock_guard lock(mu_);
    if (name == rules::HostStates::kSetting) {
        auto states = rules::HostStates::parse(value);
        if (!states) {
            log::error("stored host states cannot be read", {{"reason", states.error().what}});
            return;
        }
        host_states_ = std::move(*states);
        for (const auto& [address, weak] : endpoints_) {
            if (const auto endpoint = weak.lock()) {
                endpoint->set_host_state(host_states_.of(address.first, address.second));
            }
        }
    }
    if (name == rules::HealthObjects::kSetting) {
        auto objects = rules::HealthObjects::parse(value);
        if (!objects) {
            log::error("stored health objects cannot be read", {{"reason", objects.error().what}});
            return;
        }
        // Probes that stay are held by the old list until the new one holds them.
        std::vector<Watched> next;
        for (const auto& [key, object] : objects->all()) {
            next.push_back({object, prober_.probe(object.probe)});
        }
        watched_ = std::move(next);
        retain_probes(*shared_.directory.get());
    }
}

void Conductor::retain_probes(const Directory& directory) {
    std::set<fleet::ProbeStatePtr> probes;
    for (const route::ServicePtr& service : directory.services) {
        for (const fleet::Member& member : service->pool->members()) {
            if (member.probe) {
                probes.insert(member.probe);
            }
        }
    }
    for (const Watched& watched : watched_) {
        if (watched.probe) {
            probes.insert(watched.probe);
        }
    }
    prober_.retain(probes);
}

rules::HostStates Conductor::host_states() const {
    const std::lock_guard lock(mu_);
    return host_states_;
}

std::vector<Conductor::Watched> Conductor::health_objects() const {
    const std::lock_guard lock(mu_);
    return watched_;
}

std::vector<std::pair<fleet::EndpointPtr, bool>> Conductor::addresses() const {
    const std::lock_guard lock(mu_);
    std::set<std::uint64_t> named;
    for (const auto& [number, kept] : kept_) {
        for (const fleet::Member& member : kept.service->pool->members()) {
            named.insert(member.endpoint->id());
        }
    }
    std::vector<std::pair<fleet::EndpointPtr, bool>> out;
    for (const auto& [address, weak] : endpoints_) {
        if (auto endpoint = weak.lock()) {
            const bool is_named = named.contains(endpoint->id());
            out.emplace_back(std::move(endpoint), is_named);
        }
    }
    return out;
}

bool Conductor::is_bound(const rules::ListenAddress& at) const {
    const std::lock_guard lock(mu_);
    return listeners_.is_bound(at);
}

route::Totals Conductor::totals_of(const rules::Rule& rule, Kept& kept) {
    route::Totals out;
    if (!kept.totals) {
        kept.totals = std::make_shared<route::RuleTotals>();
    }
    out.rule = kept.totals;
    std::map<std::uint64_t, std::shared_ptr<route::EndpointTotals>> next;
    for (const rules::EndpointSpec& spec : rule.endpoints) {
        const auto known = kept.endpoint_totals.find(spec.id);
        auto totals = known != kept.endpoint_totals.end()
                          ? known->second
                          : std::make_shared<route::EndpointTotals>();
        next.emplace(spec.id, totals);
        out.endpoints.push_back(std::move(totals));
    }
    kept.endpoint_totals = std::move(next);
    return out;
}

}  // namespace sluice::flow
