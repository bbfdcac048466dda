// Receipts of requests: the ring, and what would become of one.
#include "core/admin/lookup.hpp"

namespace sluice::admin {
namespace {

using Kind = Param::Kind;

constexpr std::uint64_t kMaxFlows = 10'000;

Response get_flows(Context& context, Request& request) {
    const FlowFilter filter{request.param("rule"), request.param("model"), request.param("outcome"),
                            number_param(request, "limit", 100)};
    return json_text("{\"flows\":" + context.providers.flows_json(filter) + "}");
}

Response post_explain(Context& context, Request& request) {
    auto receipt = context.providers.explain(request.body);
    return receipt ? json_text(std::move(*receipt)) : error_response(receipt.error());
}

constexpr Param kFilter[] = {
    {"rule", "Receipts of this rule: number, id or name."},
    {"model", "Receipts of this model."},
    {"outcome", "Receipts with this outcome.", Kind::Text, 0, 0,
     "|ok|client_closed|refused|upstream_error|timeout|truncated"},
    {"limit", "At most so many, the newest.", Kind::Number, 0, kMaxFlows},
};

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/status/flows",
     .handler = get_flows,
     .summary = "The newest receipts, newest first.",
     .query = kFilter,
     .reply = "Flows"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/ai/route/explain",
     .handler = post_explain,
     .summary = "The receipt that a request would have. Nothing is sent anywhere.",
     .access = Access::Reading,
     .body = "Explain",
     .reply = "Receipt",
     .may = "404 501 503"},
};

constexpr Schema kSchemas[] = {
    {"Receipt", R"({"type":"object","required":["id"],"properties":{"id":{"type":"string"}}})"},
    {"Flows", R"({"type":"object","required":["flows"],"properties":{
        "flows":{"type":"array","items":{"$ref":"#/components/schemas/Receipt"}}}})"},
    {"Explain", R"({"type":"object","required":["body"],"properties":{
        "rule":{"type":["string","integer"]},"listener":{"type":"string"},
        "headers":{"type":"object","additionalProperties":{"type":"string"}},
        "path":{"type":"string"},"body":{"type":"object"}}})"},
};

}  // namespace

Topic flow_topic() {
    return {"flows", kRoutes, kSchemas};
}

}  // namespace sluice::admin
