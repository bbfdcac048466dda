#include "core/flow/conductor.hpp"

#include <algorithm>
#include <set>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"

namespace sluice::flow {
namespace {

// Without an engine instance every answer is the client's.
class NoEngine final : public route::Engine {
public:
    sluice_status plan(const sluice_request&, sluice_plan&, sluice_error*) const noexcept override {
        return SLUICE_E_UNSUPPORTED;
    }
    sluice_status build_leg(const route::LegAsk&, sluice_leg_out&,
                            sluice_error*) const noexcept override {
        return SLUICE_E_UNSUPPORTED;
    }
    sluice_status on_reply(const route::LegAsk&, const sluice_reply&, sluice_reply_out&,
                           sluice_error*) const noexcept override {
        return SLUICE_E_UNSUPPORTED;
    }
    route::Judgement judge(std::size_t, const sluice_request&, int, std::span<const sluice_pair>,
                           std::string_view) const noexcept override {
        return route::Judgement::Relay;
    }
    void served(std::size_t, const sluice_served&) const noexcept override {}
};

// Whether this machine can probe as the rule asks. A rule that asked so before stays: it came with
// the state file from a machine that could.
std::optional<rules::Refusal> check_probes(const rules::Rule& next, const rules::Rule* previous,
                                           std::vector<rules::Warning>& warnings) {
    for (const rules::EndpointSpec& endpoint : next.endpoints) {
        const Status can = fleet::can_probe(rules::probe_of(next, endpoint));
        if (can) {
            continue;
        }
        if (previous == nullptr || previous->probe.kind != next.probe.kind) {
            return rules::Refusal{400, "probe_impossible", "probetype", can.error().what, ""};
        }
        warnings.push_back({"probe_impossible", "probetype", can.error().what});
        break;
    }
    return std::nullopt;
}

// Whoever waits for a place that the rule does not give any more chooses anew. Only when requests
// see the rule as it is now, or they would choose the same.
void send_away(const std::vector<std::shared_ptr<route::PdState>>& gone, const Directory& now) {
    for (const auto& pd : gone) {
        pd->admission->retain([](std::uint64_t) { return false; });
    }
    for (const route::ServicePtr& service : now.services) {
        if (!service->pd) {
            continue;
        }
        const auto& members = service->pool->members();
        service->pd->admission->retain([&members](std::uint64_t endpoint) {
            return std::any_of(members.begin(), members.end(), [&](const fleet::Member& member) {
                return member.endpoint->id() == endpoint && member.spec.weight != 0 &&
                       member.spec.role == rules::kRolePrefill;
            });
        });
    }
}

// What an endpoint that is down may have held is gone when it comes back, and nobody waits for it.
void forget_down(const route::Service& service) {
    const auto stays = [&service](std::uint64_t endpoint) {
        for (std::size_t i = 0; i < service.pool->size(); ++i) {
            if ((*service.pool)[i].endpoint->id() == endpoint) {
                return service.pool->excluded(i, {}, now_us()) != fleet::Excluded::Down;
            }
        }
        return false;
    };
    service.pd->sessions.retain(stays);
    service.pd->prefixes.retain(stays);
    service.pd->admission->retain(stays);
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
      plugins_(registry, runtime),
      listeners_(workers) {}

Conductor::~Conductor() {
    publish(std::make_shared<const Directory>());
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

std::optional<rules::Refusal> Conductor::prepare(const rules::RulePtr& next,
                                                 const rules::RulePtr& previous,
                                                 std::vector<rules::Warning>& warnings) {
    const std::lock_guard lock(mu_);
    if (auto refusal = plugins_.check(*next, previous.get(), warnings)) {
        return refusal;
    }
    if (auto refusal = check_event_source(*next)) {
        return refusal;
    }
    if (auto refusal = check_probes(*next, previous.get(), warnings)) {
        return refusal;
    }
    const rules::ListenAddress at{next->key.ip, next->key.port};
    const Status status = listeners_.prepare(at);
    if (status) {
        auto refusal = republisher_.prepare(*next, warnings);
        if (refusal && !previous) {
            listeners_.abandon(at);
        }
        return refusal;
    }
    const std::string why = vip_text(at) + " cannot be bound: " + status.error().what;
    const bool was_there = previous && previous->key.ip == at.ip && previous->key.port == at.port;
    if (was_there) {
        // A rule of a standby's address is edited there too; its listener is tried again anyway.
        warnings.push_back({"listener_unavailable", "externalIP", why});
        return republisher_.prepare(*next, warnings);
    }
    return rules::Refusal{409, "listener_unavailable", "externalIP", why,
                          "an address of this machine and a free port"};
}

// Events of an endpoint reach every rule that names it: two sources would be counted twice.
std::optional<rules::Refusal> Conductor::check_event_source(const rules::Rule& next) const {
    if (next.kv.exact_mode == 0) {
        return std::nullopt;
    }
    const std::string from = rules::event_addresses(next).events_from;
    for (const auto& [number, kept] : kept_) {
        const rules::Rule& other = *kept.rule;
        if (number == next.number || other.kv.exact_mode == 0 || kept.events_from == from) {
            continue;
        }
        for (const rules::EndpointSpec& spec : next.endpoints) {
            const bool is_shared = std::any_of(
                other.endpoints.begin(), other.endpoints.end(),
                [&spec](const auto& e) { return e.ip == spec.ip && e.port == spec.port; });
            if (is_shared) {
                return rules::Refusal{
                    409, "kv_events_from_conflict", "kvEventsFrom",
                    "rule " + other.id + " takes the events of endpoint " + spec.name() +
                        " from elsewhere",
                    "the same kvEventsFrom in every KV-exact rule of an endpoint"};
            }
        }
    }
    return std::nullopt;
}

void Conductor::abandoned(const rules::RulePtr& next) {
    const std::lock_guard lock(mu_);
    listeners_.abandon({next->key.ip, next->key.port});
    republisher_.abandon(*next);
}

void Conductor::hand_over_routes() {
    EngineRoutes routes;
    for (const auto& [number, kept] : kept_) {
        for (std::size_t i = 0; i < kept.service->pool->size(); ++i) {
            const fleet::Member& member = (*kept.service->pool)[i];
            EngineRoute& route = routes[member.endpoint->id()];
            route.endpoint = member.endpoint;
            route.is_read_elsewhere = route.is_read_elsewhere || kept.reader != nullptr;
            route.ranks = std::max(route.ranks, kept.rule->kv.dp_ranks);
            if (kept.service->is_kv_watched(i)) {
                route.planes.push_back(kept.plane);
            }
            if (auto feed = republisher_.feed(number, member.spec.id)) {
                route.feeds.push_back(std::move(feed));
            }
            if (kept.pd) {
                route.pairs.push_back(kept.pd);
            }
        }
    }
    const Status done = runtime_.events().run(
        [this, routes = std::move(routes)]() mutable { events_.set_routes(std::move(routes)); });
    if (!done) {
        log::error("event thread does not answer", {{"reason", done.error().what}});
    }
}

void Conductor::publish(const std::shared_ptr<const Directory>& directory) {
    shared_.directory.set(directory);
    for (const auto& worker : workers_) {
        worker->set_directory(directory);
    }
}

void Conductor::applied(const std::shared_ptr<const rules::Table>& table) {
    const std::lock_guard lock(mu_);
    auto directory = std::make_shared<Directory>();
    directory->table = table;
    std::map<std::uint32_t, Kept> next;
    // Services that nobody has seen yet.
    std::map<std::uint32_t, std::shared_ptr<route::Service>> fresh;
    std::vector<std::shared_ptr<route::PdState>> gone;
    for (const rules::RulePtr& rule : table->rules()) {
        Kept kept;
        if (const auto it = kept_.find(rule->number); it != kept_.end()) {
            kept = std::move(it->second);
            kept_.erase(it);
        }
        if (!kept.service || kept.rule != rule) {
            if (kept.pd && !rule->pd.is_on) {
                gone.push_back(kept.pd);
            }
            fresh[rule->number] = make_service(rule, kept);
            kept.service = fresh[rule->number];
        }
        directory->limits[{rule->key.ip, rule->key.port}] = {};
        next.emplace(rule->number, std::move(kept));
    }
    for (const auto& [number, kept] : kept_) {
        if (kept.pd) {
            gone.push_back(kept.pd);
        }
    }
    // Rules that are gone let go of their attachments before others ask for the endpoints.
    kept_ = std::move(next);
    std::set<std::uint32_t> numbers;
    for (const auto& [number, kept] : kept_) {
        numbers.insert(number);
    }
    republisher_.retain(numbers);
    for (const auto& [number, service] : fresh) {
        republisher_.apply(*service->rule);
    }
    // Planes know their endpoints before the first event can come.
    hand_over_routes();
    for (const auto& [number, service] : fresh) {
        Kept& kept = kept_[number];
        attach(*kept.rule, *kept.service->pool, kept);
        std::vector<plugin::AttachmentPtr> by_index;
        for (const fleet::Member& member : kept.service->pool->members()) {
            const auto it = kept.attachments.find(member.endpoint->id());
            by_index.push_back(it == kept.attachments.end() ? nullptr : it->second.attachment);
        }
        if (kept.engine) {
            service->engine = make_engine(kept.engine, by_index, infos_of(kept));
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
    publish(directory);
    send_away(gone, *directory);
    retain_probes(*directory);
    listeners_.reconcile(*directory);
    plugins_.sweep();
    std::erase_if(endpoints_, [](const auto& entry) { return entry.second.expired(); });
}

void Conductor::tick() {
    const std::lock_guard lock(mu_);
    if (listeners_.has_unbound()) {
        listeners_.reconcile(*shared_.directory.get());
    }
    republisher_.tick();
    const std::uint64_t now = now_us();
    for (auto& [number, kept] : kept_) {
        for (const auto& [id, breaker] : kept.breakers) {
            breaker->heal(now);
        }
        if (kept.key) {
            refresh_key(kept, false);
        }
        if (kept.pd) {
            forget_down(*kept.service);
        }
    }
}

std::vector<std::string> Conductor::unbound() const {
    const std::lock_guard lock(mu_);
    return listeners_.unbound();
}

}  // namespace sluice::flow
