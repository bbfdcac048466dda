// Which adapter looks at which endpoint of a rule, and for what.
#include "core/base/log.hpp"
#include "core/flow/conductor.hpp"
#include "core/rules/event_addresses.hpp"

namespace sluice::flow {

std::vector<plugin::EndpointInfo> Conductor::infos_of(const Kept& kept) {
    std::vector<plugin::EndpointInfo> out;
    const rules::Rule& rule = *kept.rule;
    for (const fleet::Member& member : kept.service->pool->members()) {
        plugin::EndpointInfo info;
        info.id = member.endpoint->id();
        info.roles = member.spec.role == rules::kRolePrefill  ? SLUICE_ROLE_PREFILL
                     : member.spec.role == rules::kRoleDecode ? SLUICE_ROLE_DECODE
                                                              : SLUICE_ROLE_WHOLE;
        info.base_url = member.endpoint->base_url();
        info.name = member.endpoint->name();
        info.address = info.name.substr(0, info.name.rfind(':'));
        info.authorization = kept.key ? *kept.key->authorization() : std::string();
        info.num_dp_ranks = rule.kv.dp_ranks;
        info.weight = member.spec.weight;
        if (kept.engine) {
            info.fields = endpoint_fields(rule, member.spec, *kept.engine->plugin());
        }
        out.push_back(std::move(info));
    }
    return out;
}

void Conductor::attach_all(const EnginePtr& engine, const std::vector<plugin::EndpointInfo>& infos,
                           const std::map<std::uint64_t, std::uint32_t>& wanted,
                           Kept::Attachments& held) {
    Kept::Attachments next;
    for (const plugin::EndpointInfo& info : infos) {
        const auto want = wanted.find(info.id);
        if (want == wanted.end() || next.contains(info.id)) {
            continue;
        }
        const auto it = held.find(info.id);
        if (it != held.end() && it->second.watch == want->second) {
            next.insert(*it);
            continue;
        }
        // The adapter was told otherwise: what was held is let go of first.
        held.erase(info.id);
        auto attached = engine->attach(info, want->second);
        if (attached) {
            next.emplace(info.id, Kept::Attached{std::move(*attached), want->second});
        } else {
            log::error("endpoint cannot be watched",
                       {{"endpoint", info.name}, {"reason", attached.error().what}});
        }
    }
    held = std::move(next);
}

// Endpoints that stay keep their attachment; plain rules that name no engine watch nothing, because
// nobody said that an engine answers there.
void Conductor::attach(const rules::Rule& rule, const fleet::Pool& pool, Kept& kept) {
    if (rule.kv.dp_ranks != kept.ranks) {
        // The adapter was told otherwise. Other rules may hold what we let go of here: then it
        // stays, and is given to us again.
        kept.attachments.clear();
        kept.read_attachments.clear();
        kept.ranks = rule.kv.dp_ranks;
    }
    const bool is_watched =
        kept.engine && (rule.kv.exact_mode != 0 || rule.pd.is_on || rule.is_engine_given);
    // By endpoint id, since an address may have two roles.
    std::map<std::uint64_t, std::uint32_t> of_engine;
    std::map<std::uint64_t, std::uint32_t> of_reader;
    for (const fleet::Member& member : pool.members()) {
        const std::uint64_t id = member.endpoint->id();
        const bool is_kv = route::watches_kv(rule, member.spec.role);
        if (is_watched) {
            of_engine[id] |=
                static_cast<std::uint32_t>(SLUICE_WATCH_LOAD | SLUICE_WATCH_MODELS |
                                           (is_kv && kept.reader == nullptr ? SLUICE_WATCH_KV : 0));
        }
        if (is_kv && kept.reader != nullptr) {
            of_reader[id] = SLUICE_WATCH_KV;
        }
    }
    auto infos = of_engine.empty() && of_reader.empty() ? std::vector<plugin::EndpointInfo>()
                                                        : infos_of(kept);
    attach_all(kept.engine, infos, of_engine, kept.attachments);
    // The other gateway is no engine: it gets no key, and nothing that was said of the engine.
    for (plugin::EndpointInfo& info : infos) {
        info.roles = SLUICE_ROLE_WHOLE;
        info.authorization.clear();
        info.fields = "{}";
    }
    attach_all(kept.reader, infos, of_reader, kept.read_attachments);
}

void Conductor::take_engine(const rules::Rule& rule, Kept& kept, route::Service& service) {
    auto engine = plugins_.engine(rule);
    if (!engine) {
        log::error("engine adapter cannot be made",
                   {{"rule", rule.id}, {"reason", engine.error().what}});
        return;
    }
    if (kept.engine != *engine) {
        kept.attachments.clear();
    }
    kept.engine = *engine;
    service.traits = traits_of(**engine);
}

// Events that another gateway publishes are read by the plugin that reads vLLM's form, whatever the
// engine is: as part of its own attachment where it is the engine's plugin, else as one of its own.
void Conductor::take_reader(const rules::Rule& rule, Kept& kept) {
    kept.events_from = rules::event_addresses(rule).events_from;
    EnginePtr reader;
    if (plugins_.needs_reader(rule)) {
        auto made = plugins_.reader(rule);
        if (made) {
            reader = *made;
        } else {
            log::error("events of another gateway cannot be read",
                       {{"rule", rule.id}, {"reason", made.error().what}});
        }
    }
    if (kept.reader != reader) {
        kept.read_attachments.clear();
        kept.reader = std::move(reader);
    }
}

}  // namespace sluice::flow
