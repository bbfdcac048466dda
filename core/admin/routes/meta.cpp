// What the interface says about itself: its OpenAPI document and the fields of a rule.
#include "core/admin/openapi/document.hpp"
#include "core/admin/router.hpp"

namespace sluice::admin {
namespace {

// Made once: the tables do not change while the daemon runs.
Response get_document(Context& context, Request&) {
    static const std::string text = openapi::document(context.version).dump();
    return json_text(text);
}

Response get_meta(Context&, Request&) {
    static const std::string text = openapi::meta().dump();
    return json_text(text);
}

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/openapi.json",
     .handler = get_document,
     .summary = "This document.",
     .access = Access::Public,
     .reply = "OpenApi"},
    {.method = "GET",
     .pattern = "/netlox/v1/meta",
     .handler = get_meta,
     .summary = "Every field of a rule: its type, range, default, and whether it has its effect.",
     .access = Access::Public,
     .reply = "Meta"},
};

constexpr Schema kSchemas[] = {
    {"OpenApi", R"({"type":"object","required":["openapi","info","paths","components"]})"},
    {"Meta", R"({"type":"object","required":["fields"],"additionalProperties":false,"properties":{
        "fields":{"type":"array","items":{"type":"object",
        "required":["name","in","required","x-sluice-standing"],"properties":{
        "name":{"type":"string"},
        "in":{"type":"string","description":"The object it is a member of; empty is the body."},
        "required":{"type":"boolean"},"type":{"type":"string"},"allowed":{"type":"string"},
        "description":{"type":"string"},
        "x-sluice-standing":{"enum":["built","stored","not_supported_yet","read_only"]}}}}}})"},
};

}  // namespace

Topic meta_topic() {
    return {"meta", kRoutes, kSchemas};
}

}  // namespace sluice::admin
