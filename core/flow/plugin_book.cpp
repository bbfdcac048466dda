#include "core/flow/plugin_book.hpp"

#include "core/rules/event_addresses.hpp"
#include "core/rules/json_value.hpp"
#include "core/rules/key.hpp"

namespace sluice::flow {
namespace {

using rules::Json;

// Reads the form in which gateways publish KV events.
constexpr const char* kReader = "vllm";

// A plugin has one text for people; what it ends in is shown beside it, as the gateway's own
// refusals show what is allowed.
void take_allowed(rules::Refusal& out) {
    constexpr std::string_view kAllowed = "; allowed are ";
    const std::size_t at = out.message.rfind(kAllowed);
    if (out.allowed.empty() && at != std::string::npos) {
        out.allowed = out.message.substr(at + kAllowed.size());
        out.message.erase(at);
    }
}

rules::Refusal to_refusal(const plugin::Finding& finding) {
    rules::Refusal out;
    const bool is_immutable = finding.kind == plugin::Finding::Kind::Immutable;
    out.status = is_immutable ? 409 : 400;
    out.code =
        finding.code.empty() ? (is_immutable ? "immutable" : "plugin_refused") : finding.code;
    out.field = finding.field;
    out.message = finding.text;
    out.allowed = finding.allowed;
    take_allowed(out);
    return out;
}

// The members of `object` that the plugin's schema names go to `out`.
void take(const Json* object, const plugin::Schema& schema, Json::Object& out) {
    if (object == nullptr || object->object() == nullptr) {
        return;
    }
    for (const auto& [name, value] : *object->object()) {
        if (schema.takes(name)) {
            out[name] = value;
        }
    }
}

const Json* member(const Json& object, std::string_view name) {
    const auto* members = object.object();
    if (members == nullptr) {
        return nullptr;
    }
    const auto it = members->find(name);
    return it == members->end() ? nullptr : &it->second;
}

std::optional<rules::Refusal> ask(const plugin::Plugin& plugin, const rules::Rule& rule,
                                  const rules::Rule* previous,
                                  std::vector<rules::Warning>& warnings) {
    const plugin::Verdict verdict =
        plugin.propose(plugin_fields(rule, plugin), rule.json,
                       previous == nullptr ? std::string_view() : previous->json,
                       previous == nullptr ? std::string() : plugin_fields(*previous, plugin));
    std::optional<rules::Refusal> refusal;
    for (const plugin::Finding& finding : verdict.findings) {
        if (finding.kind == plugin::Finding::Kind::Warning) {
            warnings.push_back({finding.code, finding.field, finding.text});
        } else if (!refusal) {
            refusal = to_refusal(finding);
        }
    }
    return refusal;
}

class SelectorAdapter final : public route::Selector {
public:
    explicit SelectorAdapter(std::shared_ptr<const plugin::SelectorView> view)
        : view_(std::move(view)) {}

    Choice choose(const sluice_request& request,
                  std::span<sluice_candidate> rows) const noexcept override {
        const plugin::SelectorChoice choice = view_->choose(request, SLUICE_LEG_SINGLE, 0, rows);
        return {choice.by != plugin::SelectorChoice::By::Nothing, choice.index, choice.score};
    }
    void observe(const sluice_outcome& outcome) const noexcept override { view_->observe(outcome); }

private:
    std::shared_ptr<const plugin::SelectorView> view_;
};

template <class Instance>
Result<std::shared_ptr<Instance>> obtain(
    plugin::Registry& registry, plugin::Runtime& runtime,
    std::map<std::pair<std::string, std::string>, std::shared_ptr<Instance>>& book,
    const std::string& plugin_name, const rules::Rule& rule, const std::string& owner,
    InstanceNames& names, const std::string* fields = nullptr) {
    const plugin::PluginPtr plugin = registry.find(plugin_name);
    if (!plugin) {
        return Error{Code::NotFound, "no plugin is loaded as " + plugin_name};
    }
    const plugin::Verdict verdict = plugin->propose(
        fields == nullptr ? plugin_fields(rule, *plugin) : *fields, rule.json, {}, {});
    if (verdict.is_refused()) {
        return Error{Code::Invalid, verdict.findings.empty() ? "the plugin refused the rule"
                                                             : verdict.findings.front().text};
    }
    const std::pair<std::string, std::string> key{plugin->id(), owner + verdict.config};
    auto& slot = book[key];
    if (slot && !slot->is_faulted()) {
        return slot;
    }
    const std::string& alias = plugin->descriptor().alias;
    plugin::InstanceSpec spec;
    spec.name = names.next(alias.empty() ? plugin->id() : alias);
    spec.config = verdict.config;
    const std::string name = spec.name;
    auto made = Instance::create(runtime, plugin, std::move(spec));
    if (!made) {
        book.erase(key);
        return std::move(made).error();
    }
    names.taken(name, *made);
    if (Status active = (*made)->activate(); !active) {
        book.erase(key);
        return std::move(active).error();
    }
    slot = *made;
    return slot;
}

}  // namespace

std::string reader_fields(const rules::Rule& rule) {
    Json::Object out;
    out["kvEventsFrom"] = Json(rules::event_addresses(rule).events_from);
    if (rule.kv.block_tokens) {
        out["kvBlockSize"] = Json(*rule.kv.block_tokens);
    }
    return Json(std::move(out)).dump();
}

std::string plugin_fields(const rules::Rule& rule, const plugin::Plugin& plugin) {
    Json::Object out;
    const auto body = Json::parse(rule.json);
    if (body) {
        take(member(*body, "serviceArguments"), plugin.config_schema(), out);
    }
    const auto own = Json::parse(rule.plugin_config);
    if (own) {
        const Json* part = member(*own, plugin.descriptor().alias);
        take(part != nullptr ? part : member(*own, plugin.id()), plugin.config_schema(), out);
    }
    return Json(std::move(out)).dump();
}

std::shared_ptr<const route::Selector> make_selector(
    std::shared_ptr<const plugin::SelectorView> view) {
    return std::make_shared<SelectorAdapter>(std::move(view));
}

std::string endpoint_fields(const rules::Rule& rule, const rules::EndpointSpec& spec,
                            const plugin::Plugin& plugin) {
    Json::Object out;
    const plugin::Schema* schema = plugin.endpoint_schema();
    const auto body = Json::parse(rule.json);
    const Json* endpoints = body ? member(*body, "endpoints") : nullptr;
    if (schema == nullptr || endpoints == nullptr || endpoints->array() == nullptr) {
        return "{}";
    }
    for (const Json& one : *endpoints->array()) {
        const auto number = [&one](const char* name) -> std::uint64_t {
            const Json* value = member(one, name);
            const auto* n = value == nullptr ? nullptr : value->unsigned_integer();
            return n == nullptr ? 0 : *n;
        };
        const Json* ip = member(one, "endpointIP");
        if (ip != nullptr && ip->text() != nullptr && rules::canonical_ip(*ip->text()) == spec.ip &&
            number("targetPort") == spec.port && number("ep_role") == spec.role) {
            take(&one, *schema, out);
        }
    }
    return Json(std::move(out)).dump();
}

route::EngineTraits traits_of(const plugin::EngineInstance& engine) {
    const plugin::EngineInfo& info = engine.info();
    route::EngineTraits out;
    out.default_block_tokens = info.block_tokens;
    out.uncached_tail_tokens = info.uncached_tail_tokens;
    out.reserved_fields = info.reserved_fields;
    out.reserved_paths = info.reserved_paths;
    out.hears_served = engine.hears_served();
    return out;
}

std::optional<rules::Refusal> PluginBook::check(const rules::Rule& rule,
                                                const rules::Rule* previous,
                                                std::vector<rules::Warning>& warnings) {
    for (const std::string& name : {rule.engine, rule.selector}) {
        const plugin::PluginPtr plugin = registry_.find(name);
        if (!plugin) {
            return rules::Refusal{400,
                                  "plugin_not_loaded",
                                  name == rule.engine ? "engine" : "selector",
                                  "no plugin is loaded as " + name,
                                  {}};
        }
        if (auto refusal = ask(*plugin, rule, previous, warnings)) {
            return refusal;
        }
    }
    if (needs_reader(rule) && !registry_.find(kReader)) {
        return rules::Refusal{400,
                              "plugin_not_loaded",
                              "kvEventsFrom",
                              "another gateway's events are read by the plugin " +
                                  std::string(kReader) + ", which is not loaded",
                              {}};
    }
    if (rule.pd.is_on) {
        const auto instance = engine(rule);
        if (!instance || !(*instance)->can(SLUICE_CAP_PD)) {
            return rules::Refusal{400, "pd_engine_unsupported", "pd_disagg_mode",
                                  "the engine " + rule.engine + " does not split requests",
                                  "false, or another engine"};
        }
    }
    return std::nullopt;
}

Result<EnginePtr> PluginBook::engine(const rules::Rule& rule) {
    return obtain<plugin::EngineInstance>(registry_, runtime_, engines_, rule.engine, rule, {},
                                          names_);
}

bool PluginBook::needs_reader(const rules::Rule& rule) const {
    if (rules::event_addresses(rule).events_from.empty()) {
        return false;
    }
    const plugin::PluginPtr own = registry_.find(rule.engine);
    return !own || !own->config_schema().takes("kvEventsFrom");
}

Result<EnginePtr> PluginBook::reader(const rules::Rule& rule) {
    const std::string fields = reader_fields(rule);
    return obtain<plugin::EngineInstance>(registry_, runtime_, engines_, kReader, rule, {}, names_,
                                          &fields);
}

Result<SelectorPtr> PluginBook::selector(const rules::Rule& rule) {
    // A selector keeps state (a cursor), so each rule has one of its own.
    return obtain<plugin::SelectorInstance>(registry_, runtime_, selectors_, rule.selector, rule,
                                            std::to_string(rule.number) + " ", names_);
}

void PluginBook::sweep() {
    std::erase_if(engines_, [](const auto& entry) { return entry.second.use_count() == 1; });
    std::erase_if(selectors_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace sluice::flow
