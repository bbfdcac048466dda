// /config/ai/kv: which blocks an endpoint holds. /kv_event_sources: where its events are published
// again.
#include <algorithm>

#include "core/admin/lookup.hpp"

namespace sluice::admin {
namespace {

using Kind = Param::Kind;

constexpr std::uint64_t kDefaultBlocks = 100'000;
constexpr std::uint64_t kMaxBlocks = 1'000'000;

Response get_inventory(Context& context, Request& request) {
    if (request.has("ep_idx") == request.has("endpoint")) {
        return refusal_response({400, "bad_parameter", "ep_idx",
                                 "one of ep_idx and endpoint says which endpoint",
                                 "either ep_idx or endpoint=ip:port"});
    }
    rules::RulePtr rule;
    if (auto refusal = find_rule(context, request.param("service_id"), "service_id", rule)) {
        return refusal_response(*refusal);
    }
    const char* const name = request.has("endpoint") ? "endpoint" : "ep_idx";
    const rules::EndpointSpec* endpoint = find_endpoint(*rule, request.param(name));
    if (endpoint == nullptr) {
        return refusal_response({404, "no_endpoint", name, "the rule has no such endpoint", ""});
    }
    auto inventory = context.providers.inventory(rule, *endpoint,
                                                 number_param(request, "limit", kDefaultBlocks));
    if (!inventory) {
        return error_response(inventory.error());
    }
    // Written by hand: a million blocks as a tree would be a hundred times their size.
    std::string body = "{\"service_id\":" + std::to_string(rule->number) +
                       ",\"ep_idx\":" + std::to_string(endpoint->ep_idx) + ",\"endpoint\":";
    rules::append_quoted(body, endpoint->name());
    body += ",\"hash_algo\":";
    rules::append_quoted(body, inventory->hash_algo);
    if (!inventory->signal.empty()) {
        body += ",\"signal\":";
        rules::append_quoted(body, inventory->signal);
    }
    if (!inventory->admission.empty()) {
        body += ",\"admission\":";
        rules::append_quoted(body, inventory->admission);
    }
    body += ",\"ranks\":[";
    for (std::size_t i = 0; i < inventory->ranks.size(); ++i) {
        const Inventory::Rank& rank = inventory->ranks[i];
        body += (i == 0 ? "{\"rank\":" : ",{\"rank\":") + std::to_string(rank.rank) +
                ",\"blocks\":" + std::to_string(rank.blocks) + "}";
    }
    body += "],\"blocks\":[";
    for (std::size_t i = 0; i < inventory->blocks.size(); ++i) {
        body += (i == 0 ? "{\"block_idx\":" : ",{\"block_idx\":") + std::to_string(i) +
                ",\"hash_uint64\":" + std::to_string(inventory->blocks[i]) + "}";
    }
    body += "],\"truncated\":";
    body += inventory->blocks.size() < inventory->total ? "true" : "false";
    body += ",\"total\":" + std::to_string(inventory->total) + "}";
    return json_text(std::move(body));
}

// The endpoint of a rule by "ip:port" alone; null when the rule has none such.
const rules::EndpointSpec* endpoint_at(const rules::Rule& rule, std::string_view ip,
                                       std::uint16_t port) {
    for (const rules::EndpointSpec& spec : rule.endpoints) {
        if (spec.port == port && spec.ip == ip) {
            return &spec;
        }
    }
    return nullptr;
}

// As an engine answers it, so that a reader of engines reads gateways, too. Anybody may ask: it
// costs no more than a walk over the endpoints.
Response get_event_sources(Context& context, Request& request) {
    const std::string& wanted = request.param("endpoint");
    const std::size_t colon = std::min(wanted.rfind(':'), wanted.size());
    std::string_view ip = std::string_view(wanted).substr(0, colon);
    if (ip.starts_with('[') && ip.ends_with(']')) {
        ip = ip.substr(1, ip.size() - 2);
    }
    const auto port = number_of<std::uint16_t>(wanted.substr(std::min(colon + 1, wanted.size())));
    std::vector<rules::RulePtr> rules = context.book.table()->rules();
    if (request.has("rule")) {
        rules::RulePtr rule;
        if (auto refusal = find_rule(context, request.param("rule"), "rule", rule)) {
            return refusal_response(*refusal);
        }
        rules = {rule};
    }
    bool is_known = false;
    for (const rules::RulePtr& rule : rules) {
        const rules::EndpointSpec* endpoint = port ? endpoint_at(*rule, ip, *port) : nullptr;
        if (endpoint == nullptr) {
            continue;
        }
        is_known = true;
        std::string sources = context.providers.event_sources(rule, *endpoint);
        if (sources != "{}") {
            return json_text(std::move(sources));
        }
    }
    return is_known ? json_text("{}")
                    : refusal_response(
                          {404, "no_endpoint", "endpoint", "no rule has such an endpoint", ""});
}

constexpr Param kSources[] = {
    {"endpoint", "The endpoint as ip:port.", Kind::Text, 0, 0, {}, true},
    {"rule", "The rule: number, id or name; without it, any that publishes the endpoint's events."},
};

constexpr Param kWhich[] = {
    {"service_id", "The rule: number, id or name.", Kind::Text, 0, 0, {}, true},
    {"ep_idx", "The endpoint by its index.", Kind::Number, 0, 0xFFFFFFFF},
    {"endpoint", "The endpoint as ip:port."},
    {"limit", "At most so many blocks.", Kind::Number, 0, kMaxBlocks},
};

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/config/ai/kv/inventory",
     .handler = get_inventory,
     .summary = "The blocks that an endpoint of a KV-exact rule holds.",
     .query = kWhich,
     .reply = "Inventory",
     .may = "404 501 503"},
    {.method = "GET",
     .pattern = "/netlox/v1/kv_event_sources",
     .handler = get_event_sources,
     .summary = "Where an endpoint's KV events are published again, by rank.",
     .access = Access::Public,
     .query = kSources,
     .reply = "EventSources",
     .may = "404"},
};

constexpr Schema kSchemas[] = {
    {"EventSources", R"({"type":"object","description":"By rank; empty when nothing is published.",
        "additionalProperties":{"type":"object",
        "required":["enable_kv_cache_events","publisher","endpoint","replay_endpoint","topic"],
        "properties":{"enable_kv_cache_events":{"type":"boolean"},"publisher":{"type":"string"},
        "endpoint":{"type":"string"},"replay_endpoint":{"type":"string"},
        "buffer_steps":{"type":"integer"},"hwm":{"type":"integer"},
        "max_queue_size":{"type":"integer"},"topic":{"type":"string"}}}})"},
    {"Inventory", R"({"type":"object",
        "required":["service_id","ep_idx","hash_algo","blocks","total"],"properties":{
        "service_id":{"type":"integer"},"ep_idx":{"type":"integer"},
        "endpoint":{"type":"string"},"hash_algo":{"type":"string"},
        "signal":{"type":"string"},
        "admission":{"type":"string","description":"why the signal is as it is"},
        "ranks":{"type":"array","items":{"type":"object","required":["rank","blocks"],
            "properties":{"rank":{"type":"integer"},"blocks":{"type":"integer"}}}},
        "blocks":{"type":"array","items":{"type":"object","required":["block_idx","hash_uint64"],
            "properties":{"block_idx":{"type":"integer"},"hash_uint64":{"type":"integer"}}}},
        "truncated":{"type":"boolean"},"total":{"type":"integer"}}})"},
};

}  // namespace

Topic kv_topic() {
    return {"kv", kRoutes, kSchemas};
}

}  // namespace sluice::admin
