#include "core/flow/conductor.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/flow/vip.hpp"

namespace sluice::flow {
namespace {

std::string vip_text(const rules::ListenAddress& at) {
    const auto address = net::Address::parse_ip(at.ip, at.port);
    return address ? address->format() : at.ip + ":" + std::to_string(at.port);
}

// A selector that never finds anybody: the rule's plugin could not be made. Requests get a 503 and
// the reason is in the log.
class NoSelector final : public route::Selector {
public:
    Choice choose(const sluice_request&, std::span<sluice_candidate>) const noexcept override {
        return {};
    }
    void observe(const sluice_outcome&) const noexcept override {}
};

// Without an engine instance every answer is the client's.
class NoEngine final : public route::Engine {
public:
    route::Judgement judge(std::size_t, const sluice_request&, int, std::span<const sluice_pair>,
                           std::string_view) const noexcept override {
        return route::Judgement::Relay;
    }
};

route::KvCounters counters_of(const rules::Rule& rule) {
    route::KvCounters out;
    const std::string service = std::to_string(rule.number);
    auto& registry = metrics::registry();
    for (const rules::EndpointSpec& e : rule.endpoints) {
        const metrics::Labels labels{{"service", service}, {"ep_idx", std::to_string(e.ep_idx)}};
        out.hits.push_back(&registry.counter("loxilb_pd_kv_tier15_hits_total",
                                             "Requests routed to the longest prefix.", labels));
        out.spills.push_back(
            &registry.counter("loxilb_pd_kv_tier15_spills_total",
                              "Requests whose best endpoint was over its load bound.", labels));
        out.cold_seeds.push_back(&registry.counter("loxilb_pd_kv_tier15_cold_seeds_total",
                                                   "Requests sent to fill a cold endpoint.",
                                                   labels));
    }
    out.fallthrough = &registry.counter("loxilb_pd_kv_tier15_fallthrough_total",
                                        "KV-exact attempts that fell through.");
    return out;
}

}  // namespace

Conductor::Conductor(Shared& shared, std::vector<std::unique_ptr<Worker>>& workers,
                     plugin::Registry& registry, plugin::Runtime& runtime, EngineEvents& events,
                     fleet::Prober& prober)
    : shared_(shared),
      workers_(workers),
      registry_(registry),
      runtime_(runtime),
      events_(events),
      prober_(prober),
      plugins_(registry, runtime) {}

Conductor::~Conductor() {
    shared_.directory.set(std::make_shared<const Directory>());
    // No event may meet an index that goes away.
    const Status done = runtime_.events().run([this] { events_.set_routes({}); });
    if (!done) {
        log::error("event thread does not answer", {{"reason", done.error().what}});
    }
}

std::vector<std::string> Conductor::engines() const {
    std::vector<std::string> out;
    for (const plugin::PluginPtr& p : registry_.plugins()) {
        if (p->descriptor().provides_extension(SLUICE_EXT_ENGINE)) {
            out.push_back(p->id());
            out.push_back(p->descriptor().alias);
        }
    }
    return out;
}

std::vector<std::string> Conductor::selectors() const {
    std::vector<std::string> out;
    for (const plugin::PluginPtr& p : registry_.plugins()) {
        if (p->descriptor().provides_extension(SLUICE_EXT_SELECTOR)) {
            out.push_back(p->id());
            out.push_back(p->descriptor().alias);
        }
    }
    return out;
}

Status Conductor::bind(const rules::ListenAddress& at, const http::ServerLimits& limits) {
    if (bound_.contains(at)) {
        return {};
    }
    if (Status free = check_vip_is_free(at); !free) {
        return free;
    }
    for (std::size_t i = 0; i < workers_.size(); ++i) {
        if (Status opened = workers_[i]->open(at, limits); !opened) {
            for (std::size_t j = 0; j < i; ++j) {
                workers_[j]->close(at);
            }
            return opened;
        }
    }
    bound_.insert(at);
    return {};
}

void Conductor::unbind(const rules::ListenAddress& at) {
    for (const auto& worker : workers_) {
        worker->close(at);
    }
    bound_.erase(at);
}

std::optional<rules::Refusal> Conductor::prepare(const rules::RulePtr& next,
                                                 const rules::RulePtr& previous,
                                                 std::vector<rules::Warning>& warnings) {
    const std::lock_guard lock(mu_);
    if (auto refusal = plugins_.check(*next, previous.get(), warnings)) {
        return refusal;
    }
    const rules::ListenAddress at{next->key.ip, next->key.port};
    if (bound_.contains(at)) {
        return std::nullopt;
    }
    if (const Status status = bind(at, {}); !status) {
        return rules::Refusal{409,
                              "listener_unavailable",
                              "externalIP",
                              vip_text(at) + " cannot be bound: " + status.error().what,
                              {}};
    }
    prepared_.insert(at);
    return std::nullopt;
}

void Conductor::abandoned(const rules::RulePtr& next) {
    const std::lock_guard lock(mu_);
    const rules::ListenAddress at{next->key.ip, next->key.port};
    if (prepared_.erase(at) > 0) {
        unbind(at);
    }
}

fleet::EndpointPtr Conductor::endpoint(const rules::EndpointSpec& spec) {
    auto& slot = endpoints_[{spec.ip, spec.port}];
    if (auto known = slot.lock()) {
        return known;
    }
    auto made = std::make_shared<fleet::Endpoint>(next_endpoint_id_++, spec.ip, spec.port);
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

// Endpoints that stay keep their attachment; plain rules that name no engine watch nothing, because
// nobody said that an engine answers there.
void Conductor::attach(const rules::Rule& rule, const fleet::Pool& pool, Kept& kept) {
    const bool is_exact = rule.kv.exact_mode != 0;
    std::map<std::uint64_t, plugin::AttachmentPtr> next;
    if (kept.engine && (is_exact || rule.is_engine_given)) {
        const auto watch = static_cast<std::uint32_t>(SLUICE_WATCH_LOAD | SLUICE_WATCH_MODELS |
                                                      (is_exact ? SLUICE_WATCH_KV : 0));
        for (const fleet::Member& member : pool.members()) {
            const std::uint64_t id = member.endpoint->id();
            if (const auto it = kept.attachments.find(id); it != kept.attachments.end()) {
                next.insert(*it);
                continue;
            }
            plugin::EndpointInfo info;
            info.id = id;
            info.roles = SLUICE_ROLE_WHOLE;
            info.base_url = member.endpoint->base_url();
            info.name = member.endpoint->name();
            info.address = info.name.substr(0, info.name.rfind(':'));
            info.num_dp_ranks = rule.kv.dp_ranks;
            info.weight = member.spec.weight;
            auto attached = kept.engine->attach(info, watch);
            if (attached) {
                next.emplace(id, std::move(*attached));
            } else {
                log::error("endpoint cannot be watched",
                           {{"endpoint", info.name}, {"reason", attached.error().what}});
            }
        }
    }
    kept.attachments = std::move(next);
}

std::shared_ptr<route::Service> Conductor::make_service(const rules::RulePtr& rule, Kept& kept) {
    auto service = std::make_shared<route::Service>();
    service->rule = rule;
    std::vector<fleet::Member> members;
    auto names = std::make_shared<route::Names>();
    names->rule = rule->id;
    for (const rules::EndpointSpec& spec : rule->endpoints) {
        members.push_back({spec, endpoint(spec), prober_.probe(spec, rule->probe)});
        names->endpoints.push_back(members.back().endpoint->name());
        // The address was checked with the rule.
        service->addresses.push_back(net::Address::parse_ip(spec.ip, spec.port).value());
    }
    service->names = std::move(names);
    service->pool = std::make_shared<const fleet::Pool>(std::move(members));
    service->selector = selector_of(rule, *service->pool);
    service->kv_counters = counters_of(*rule);

    auto engine = plugins_.engine(*rule);
    if (engine) {
        if (kept.engine != *engine) {
            kept.attachments.clear();
        }
        kept.engine = *engine;
        service->traits = traits_of((*engine)->info());
    } else {
        log::error("engine adapter cannot be made",
                   {{"rule", rule->id}, {"reason", engine.error().what}});
    }
    if (rule->kv.exact_mode != 0) {
        if (!kept.plane) {
            kept.plane = std::make_shared<route::KvPlane>(
                kv::IndexOptions{.max_blocks_per_endpoint = rule->kv.max_blocks});
        }
        service->kv = kept.plane;
        for (const fleet::Member& member : service->pool->members()) {
            service->kv_members.push_back(kept.plane->member(member.endpoint->id()));
        }
    } else {
        kept.plane.reset();
    }
    kept.rule = rule;
    return service;
}

void Conductor::hand_over_routes() {
    EngineRoutes routes;
    for (const auto& [number, kept] : kept_) {
        for (const fleet::Member& member : kept.service->pool->members()) {
            EngineRoute& route = routes[member.endpoint->id()];
            route.endpoint = member.endpoint;
            route.ranks = std::max(route.ranks, kept.rule->kv.dp_ranks);
            if (kept.plane) {
                route.planes.push_back(kept.plane);
            }
        }
    }
    const Status done = runtime_.events().run(
        [this, routes = std::move(routes)]() mutable { events_.set_routes(std::move(routes)); });
    if (!done) {
        log::error("event thread does not answer", {{"reason", done.error().what}});
    }
}

void Conductor::applied(const std::shared_ptr<const rules::Table>& table) {
    const std::lock_guard lock(mu_);
    prepared_.clear();
    auto directory = std::make_shared<Directory>();
    directory->table = table;
    std::map<std::uint32_t, Kept> next;
    // Services that nobody has seen yet.
    std::map<std::uint32_t, std::shared_ptr<route::Service>> fresh;
    for (const rules::RulePtr& rule : table->rules()) {
        Kept kept;
        if (const auto it = kept_.find(rule->number); it != kept_.end()) {
            kept = std::move(it->second);
            kept_.erase(it);
        }
        if (!kept.service || kept.rule != rule) {
            fresh[rule->number] = make_service(rule, kept);
            kept.service = fresh[rule->number];
        }
        directory->limits[{rule->key.ip, rule->key.port}] = {};
        next.emplace(rule->number, std::move(kept));
    }
    // Rules that are gone let go of their attachments before others ask for the endpoints.
    kept_ = std::move(next);
    // Planes know their endpoints before the first event can come.
    hand_over_routes();
    for (const auto& [number, service] : fresh) {
        Kept& kept = kept_[number];
        attach(*kept.rule, *kept.service->pool, kept);
        std::vector<plugin::AttachmentPtr> by_index;
        for (const fleet::Member& member : kept.service->pool->members()) {
            const auto it = kept.attachments.find(member.endpoint->id());
            by_index.push_back(it == kept.attachments.end() ? nullptr : it->second);
        }
        if (kept.engine) {
            service->engine = make_engine(kept.engine, std::move(by_index));
        } else {
            service->engine = std::make_shared<NoEngine>();
        }
    }
    for (const rules::RulePtr& rule : table->rules()) {
        directory->services.push_back(kept_[rule->number].service);
    }
    for (auto& [at, limits] : directory->limits) {
        limits = limits_of(*table, at);
    }
    shared_.directory.set(directory);
    reconcile_listeners(*table);
    plugins_.sweep();
    std::erase_if(endpoints_, [](const auto& entry) { return entry.second.expired(); });
}

void Conductor::reconcile_listeners(const rules::Table& table) {
    const std::vector<rules::ListenAddress> wanted = table.listeners();
    const auto is_wanted = [&](const rules::ListenAddress& at) {
        return std::find(wanted.begin(), wanted.end(), at) != wanted.end();
    };
    for (const rules::ListenAddress& at : std::set(bound_)) {
        if (!is_wanted(at)) {
            unbind(at);
        }
    }
    std::erase_if(unbound_, [&](const auto& entry) { return !is_wanted(entry.first); });
    for (const rules::ListenAddress& at : wanted) {
        const http::ServerLimits limits = limits_of(table, at).server;
        if (bound_.contains(at)) {
            for (const auto& worker : workers_) {
                worker->set_limits(at, limits);
            }
            continue;
        }
        if (const Status status = bind(at, limits); status) {
            unbound_.erase(at);
        } else {
            if (!unbound_.contains(at)) {
                log::error("listener cannot be bound",
                           {{"vip", vip_text(at)}, {"reason", status.error().what}});
            }
            unbound_[at] = status.error().what;
        }
    }
}

void Conductor::tick() {
    const std::lock_guard lock(mu_);
    if (!unbound_.empty()) {
        reconcile_listeners(*shared_.directory.get()->table);
    }
}

std::vector<std::string> Conductor::unbound() const {
    const std::lock_guard lock(mu_);
    std::vector<std::string> out;
    for (const auto& [at, why] : unbound_) {
        out.push_back(vip_text(at) + ": " + why);
    }
    return out;
}

}  // namespace sluice::flow
