// The plugin instances behind the rules: made when first asked for, shared by rules whose plugin
// fields agree, ended when no rule holds them.
//
// Threads: control; what it returns is used by any.
// Errors:  a refusal names the field the plugin named.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/flow/instance_names.hpp"
#include "core/plugin/engine.hpp"
#include "core/plugin/registry.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/selector.hpp"
#include "core/route/service.hpp"
#include "core/rules/rule.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::flow {

// An engine plugin configured for a rule.
using EnginePtr = std::shared_ptr<plugin::EngineInstance>;
using SelectorPtr = std::shared_ptr<plugin::SelectorInstance>;

class PluginBook {
public:
    PluginBook(plugin::Registry& registry, plugin::Runtime& runtime)
        : registry_(registry), runtime_(runtime) {}

    // What the plugins of a rule say to it; the first refusal ends it.
    std::optional<rules::Refusal> check(const rules::Rule& rule, const rules::Rule* previous,
                                        std::vector<rules::Warning>& warnings);
    Result<EnginePtr> engine(const rules::Rule& rule);
    // The rule takes its KV events from another gateway, and its engine's plugin does not read
    // those.
    bool needs_reader(const rules::Rule& rule) const;
    // The instance that does.
    Result<EnginePtr> reader(const rules::Rule& rule);
    Result<SelectorPtr> selector(const rules::Rule& rule);
    // Forgets instances nobody else holds.
    void sweep();

private:
    // Plugin id; config, for selectors with the rule's number in front.
    using Key = std::pair<std::string, std::string>;

    plugin::Registry& registry_;
    plugin::Runtime& runtime_;
    std::map<Key, EnginePtr> engines_;
    std::map<Key, SelectorPtr> selectors_;
    InstanceNames names_;
};

// What a plugin that only reads another gateway's events gets of the rule: where they are and what
// is declared of the blocks. The rest speaks of the engine, which is not this plugin's.
std::string reader_fields(const rules::Rule& rule);
// The object a plugin gets: the rule's fields its schema names, and its part of plugin_config.
std::string plugin_fields(const rules::Rule& rule, const plugin::Plugin& plugin);

// What requests see of the instances.
std::shared_ptr<const route::Selector> make_selector(
    std::shared_ptr<const plugin::SelectorView> view);
// `attachments` by pool index; empty pointers where nothing is attached. Not kept alive.
std::shared_ptr<const route::Engine> make_engine(
    EnginePtr engine, const std::vector<plugin::AttachmentPtr>& attachments,
    std::vector<plugin::EndpointInfo> infos);
// The object a plugin gets with an endpoint: those of its fields that the endpoint schema names.
std::string endpoint_fields(const rules::Rule& rule, const rules::EndpointSpec& spec,
                            const plugin::Plugin& plugin);
route::EngineTraits traits_of(const plugin::EngineInstance& engine);

}  // namespace sluice::flow
