// Receipts of requests: the ring, and what would become of one.
#include "core/admin/lookup.hpp"

namespace sluice::admin {
namespace {

using Kind = Param::Kind;

constexpr std::uint64_t kMaxFlows = 10'000;
constexpr std::uint64_t kMaxEvery = 1'000'000;

Response get_flows(Context& context, Request& request) {
    const FlowFilter filter{request.param("rule"), request.param("model"), request.param("outcome"),
                            number_param(request, "limit", 100)};
    return json_text("{\"flows\":" + context.providers.flows_json(filter) + "}");
}

Response get_stream(Context& context, Request& request) {
    Response out;
    out.content_type = "text/event-stream";
    out.stream = context.providers.flow_stream(
        {request.param("rule"), request.param("model"), request.param("outcome"), 0},
        number_param(request, "every", 1));
    return out;
}

Response post_explain(Context& context, Request& request) {
    auto receipt = context.providers.explain(request.body);
    if (!receipt && receipt.error().code == Code::NotFound) {
        return refusal_response({404, "no_rule", "", "no-rule error: " + receipt.error().what, ""});
    }
    return receipt ? json_text(std::move(*receipt)) : error_response(receipt.error());
}

constexpr Param kFilter[] = {
    {"rule", "Receipts of this rule: number, id or name."},
    {"model", "Receipts of this model."},
    {"outcome", "Receipts with this outcome.", Kind::Text, 0, 0,
     "|ok|client_closed|refused|upstream_error|timeout|truncated"},
    {"limit", "At most so many, the newest.", Kind::Number, 0, kMaxFlows},
};

constexpr Param kStreamed[] = {
    {"rule", "Receipts of this rule: number, id or name."},
    {"model", "Receipts of this model."},
    {"outcome", "Receipts with this outcome.", Kind::Text, 0, 0,
     "|ok|client_closed|refused|upstream_error|timeout|truncated"},
    {"every", "One of so many of the receipts that match.", Kind::Number, 1, kMaxEvery},
};

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/status/flows",
     .handler = get_flows,
     .summary = "The newest receipts, newest first.",
     .query = kFilter,
     .reply = "Flows"},
    {.method = "GET",
     .pattern = "/netlox/v1/status/flows/stream",
     .handler = get_stream,
     .summary = "Each receipt as it is written, one a message. A slow reader is dropped.",
     .query = kStreamed,
     .reply = "text/event-stream",
     .may = "503"},
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
    {"Receipt", R"({"type":"object","additionalProperties":false,
        "required":["id","started_us","client","rule","rule_number","model","api","stream",
            "prompt_tokens","blocks","legs","candidates","misses","tokens","outcome","error_code"],
        "properties":{"id":{"type":"string"},"started_us":{"type":"integer","minimum":0},
        "client":{"type":"string"},"rule":{"type":"string"},"rule_number":{"type":"integer"},
        "model":{"type":"string"},
        "api":{"enum":["chat","completions","responses","messages","embeddings","other"]},
        "stream":{"type":"boolean"},"prompt_tokens":{"type":"integer","minimum":0},
        "blocks":{"type":"integer","minimum":0},
        "legs":{"type":"array","items":{"$ref":"#/components/schemas/ReceiptLeg"}},
        "candidates":{"type":"array","items":{"$ref":"#/components/schemas/ReceiptCandidate"}},
        "misses":{"type":"array","items":{"type":"object","required":["tier","reason"],
            "properties":{"tier":{"type":"string"},"reason":{"type":"string"}}}},
        "tokens":{"type":"object","required":["tokenize_us","cached_segments","predicted_cached",
            "reported_cached"],"properties":{"tokenize_us":{"type":"integer","minimum":0},
            "cached_segments":{"type":"integer","minimum":0},
            "predicted_cached":{"type":["integer","null"]},
            "reported_cached":{"type":["integer","null"]}}},
        "outcome":{"enum":["ok","client_closed","refused","upstream_error","timeout","truncated"]},
        "error_code":{"type":"string"}}})"},
    {"ReceiptLeg", R"({"type":"object",
        "required":["kind","attempt","endpoint","tier","matched_blocks","queued_us","connect_us",
            "first_byte_us","done_us","status","bytes","verdict"],
        "properties":{"kind":{"enum":["whole","prefill","decode"]},
        "attempt":{"type":"integer","minimum":0},"endpoint":{"type":"string"},
        "rank":{"type":"integer","minimum":0},
        "tier":{"enum":["none","session","prefix","kv_exact","selector","rescue"]},
        "matched_blocks":{"type":"integer","minimum":0},"queued_us":{"type":"integer","minimum":0},
        "connect_us":{"type":"integer","minimum":0},"first_byte_us":{"type":"integer","minimum":0},
        "done_us":{"type":"integer","minimum":0},"status":{"type":"integer","minimum":0},
        "bytes":{"type":"integer","minimum":0},"verdict":{"type":"string"}}})"},
    {"ReceiptCandidate", R"({"type":"object",
        "required":["endpoint","leg","eligible","matched_blocks","inflight","running","waiting",
            "score"],"properties":{"endpoint":{"type":"string"},
        "leg":{"enum":["whole","prefill","decode"]},"eligible":{"type":"boolean"},
        "excluded":{"type":"string"},"matched_blocks":{"type":"integer","minimum":0},
        "inflight":{"type":"integer","minimum":0},"running":{"type":"integer","minimum":0},
        "waiting":{"type":"integer","minimum":0},"score":{"type":"number"}}})"},
    {"Flows", R"({"type":"object","required":["flows"],"additionalProperties":false,"properties":{
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
