// /config/ai/kv: which blocks an endpoint holds.
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
};

constexpr Schema kSchemas[] = {
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
