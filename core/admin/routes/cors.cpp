// Web pages of other origins that may use the interface. Without any there is no CORS.
#include <algorithm>

#include "core/admin/body.hpp"
#include "core/admin/origins.hpp"
#include "core/admin/router.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

Response get_cors(Context& context, Request&) {
    std::vector<std::string> all = context.node->knobs.cors_origins();
    for (std::string& stored : stored_origins(context.book)) {
        if (!contains_origin(all, stored)) {
            all.push_back(std::move(stored));
        }
    }
    Json::Array list;
    for (std::string& one : all) {
        list.emplace_back(std::move(one));
    }
    return json_response(Json::Object{{"cors", std::move(list)}});
}

Response post_cors(Context& context, Request& request) {
    BodyReader body(request.body);
    const std::vector<std::string> asked = body.texts("cors", true, kMaxOrigins);
    if (const auto refusal = body.refusal({"cors"})) {
        return refusal_response(*refusal);
    }
    const std::lock_guard lock(context.node->switch_mu);
    std::vector<std::string> next = stored_origins(context.book);
    const std::size_t before = next.size();
    for (std::size_t i = 0; i < asked.size(); ++i) {
        const auto origin = canonical_origin(asked[i]);
        if (!origin) {
            return refusal_response({400, "bad_origin", "cors[" + std::to_string(i) + "]",
                                     "this is not the origin of a web page",
                                     std::string(kOriginForm)});
        }
        if (!contains_origin(next, *origin)) {
            next.push_back(*origin);
        }
    }
    if (next.size() > kMaxOrigins) {
        return refusal_response({403, "too_many_origins", "cors", "there are too many origins",
                                 "at most " + std::to_string(kMaxOrigins)});
    }
    if (next.size() != before) {
        if (const auto refusal =
                store_origins(context.book, next, {request.actor, request.address})) {
            return refusal_response(*refusal);
        }
    }
    return success();
}

Response delete_cors(Context& context, Request& request) {
    const auto origin = canonical_origin(request.param("cors_url"));
    const std::lock_guard lock(context.node->switch_mu);
    std::vector<std::string> next = stored_origins(context.book);
    if (!origin || std::erase(next, *origin) == 0) {
        if (origin && contains_origin(context.node->knobs.cors_origins(), *origin)) {
            return refusal_response({409, "configured", "cors_url",
                                     "the configuration names this origin: [api] cors_origins",
                                     "an origin that was added here"});
        }
        return refusal_response({404, "no_origin", "cors_url", "there is no such origin", ""});
    }
    if (const auto refusal = store_origins(context.book, next, {request.actor, request.address})) {
        return refusal_response(*refusal);
    }
    return success();
}

constexpr Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/config/cors",
     .handler = get_cors,
     .summary = "Origins of web pages that may use the interface.",
     .reply = "Cors"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/cors",
     .handler = post_cors,
     .summary = "Adds origins.",
     .body = "Cors",
     .may = "411 413 422 503 507"},
    {.method = "DELETE",
     .pattern = "/netlox/v1/config/cors/{cors_url}",
     .handler = delete_cors,
     .summary = "Takes an origin away that was added here.",
     .may = "404 409 503 507"},
};

constexpr Schema kSchemas[] = {
    {"Cors", R"({"type":"object","required":["cors"],"additionalProperties":false,"properties":{
        "cors":{"type":"array","maxItems":64,"items":{"type":"string"}}}})"},
};

}  // namespace

Topic cors_topic() {
    return {"cors", kRoutes, kSchemas};
}

}  // namespace sluice::admin
