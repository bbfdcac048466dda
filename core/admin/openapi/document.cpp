#include "core/admin/openapi/document.hpp"

#include "core/admin/openapi/codes.hpp"
#include "core/admin/openapi/paths.hpp"
#include "core/admin/openapi/rule_schema.hpp"
#include "core/admin/openapi/words.hpp"
#include "core/admin/router.hpp"

namespace sluice::admin::openapi {
namespace {

using rules::Json;

constexpr std::string_view kAbout =
    "Rules, live state and the node of a Sluice gateway. A request that is refused changes "
    "nothing and is answered with a code that stays the same over versions, the field, and what "
    "is allowed. A path answers 405 with Allow to a method it does not have; a parameter it does "
    "not know is refused; HEAD is GET without the body; the Content-Type of a request is looked "
    "at in a PATCH only. A request that is not one of HTTP, too long or too slow is refused before "
    "its path is looked at (x-sluice-before-paths). Operations of the tag `absent` are known and "
    "answered 501 with the reason.";

// Of a request that is refused before its path is looked at.
constexpr std::string_view kBeforePaths = "400 408 417 421 431 501 505";

struct StatusRow {
    std::string_view status;
    std::string_view about;
};

// Of every refusal; a handler's row names those beyond the usual ones.
constexpr StatusRow kStatuses[] = {
    {"400", "The request, a parameter or a field is refused; the code says why."},
    {"401", "A token is needed, or the one given is not known."},
    {"403", "The role of the token is not enough, a limit is reached, or a web page asks."},
    {"404", "There is no such thing."},
    {"408", "The request did not come in time."},
    {"409", "It conflicts with what there is."},
    {"411", "A body needs Content-Length or chunked transfer."},
    {"413", "The body is longer than the interface takes."},
    {"415", "The body is of a kind that is not taken."},
    {"417", "The request expects something that the interface does not do."},
    {"421", "The host name asked is not one of the interface."},
    {"422", "A value has the wrong type or is outside its range."},
    {"429", "Too many wrong tokens, or a limit is reached."},
    {"431", "The head of the request is too long."},
    {"500", "A fault of the gateway; its log says more."},
    {"501", "The gateway does not have this; the message says why."},
    {"503", "Not now: stopping, in maintenance, or busy."},
    {"505", "The version of HTTP is not spoken here."},
    {"507", "There is no room to store the change; nothing was changed."},
};

// "400 409" -> [400,409]
Json::Array numbers(std::string_view list) {
    Json::Array out;
    for (const std::string_view word : split(list, ' ')) {
        out.push_back(*Json::parse(word));
    }
    return out;
}

Json::Object error_schema() {
    Json::Object out = parsed_schema(R"({"type":"object",
        "description":"Why a request was refused.",
        "required":["code","field","message","allowed","result"],"properties":{
        "code":{"type":"string","pattern":"^[a-z][a-z0-9_]*$",
            "description":"Stable; x-sluice-codes lists them. A plugin may have its own."},
        "field":{"type":"string","description":"As the operator spells it; empty when it is none."},
        "message":{"type":"string"},
        "allowed":{"type":"string","description":"What may be given; may be empty."},
        "result":{"type":"string","description":"The message again."}}})");
    Json::Array list;
    for (const CodeRow& row : codes()) {
        list.emplace_back(Json::Object{
            {"code", row.code}, {"statuses", numbers(row.statuses)}, {"description", row.about}});
    }
    out.emplace("x-sluice-codes", std::move(list));
    return out;
}

Json::Object schemas() {
    Json::Object out = rule_schemas();
    out.emplace("Error", error_schema());
    out.emplace("Success", parsed_schema(R"({"type":"object","required":["result"],
        "properties":{"result":{"type":"string"}}})"));
    for (const Topic& topic : topics()) {
        for (const Schema& schema : topic.schemas) {
            out.emplace(schema.name, parsed_schema(schema.json));
        }
    }
    return out;
}

Json::Object refusals() {
    Json::Object out;
    for (const StatusRow& row : kStatuses) {
        out.emplace(row.status,
                    Json::Object{
                        {"description", row.about},
                        {"content", Json::Object{{"application/json",
                                                  Json::Object{{"schema", reference("Error")}}}}}});
    }
    return out;
}

Json::Array tags() {
    Json::Array out;
    for (const Topic& topic : topics()) {
        out.emplace_back(Json::Object{{"name", topic.name}});
    }
    out.emplace_back(Json::Object{{"name", "absent"},
                                  {"description", "Known and not there: 501 with the reason."}});
    return out;
}

}  // namespace

Json document(std::string_view version) {
    return Json::Object{
        {"openapi", "3.1.0"},
        {"jsonSchemaDialect", "https://json-schema.org/draft/2020-12/schema"},
        {"info", Json::Object{{"title", "Sluice management interface"},
                              {"version", version},
                              {"description", kAbout}}},
        {"servers", Json::Array{Json::Object{{"url", "/"}}}},
        {"security", Json::Array{Json::Object{{"BearerAuth", Json::Array{}}}}},
        {"tags", tags()},
        {"x-sluice-before-paths", numbers(kBeforePaths)},
        {"paths", paths()},
        {"components",
         Json::Object{{"schemas", schemas()},
                      {"responses", refusals()},
                      {"securitySchemes",
                       Json::Object{{"BearerAuth",
                                     Json::Object{{"type", "http"}, {"scheme", "bearer"}}}}}}}};
}

Json meta() {
    return Json::Object{{"fields", field_list()}};
}

}  // namespace sluice::admin::openapi
