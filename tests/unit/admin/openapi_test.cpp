#include <doctest/doctest.h>
#include <simdjson.h>

#include <algorithm>
#include <set>

#include "core/admin/openapi/codes.hpp"
#include "core/admin/openapi/document.hpp"
#include "core/admin/openapi/paths.hpp"
#include "core/admin/openapi/words.hpp"
#include "core/admin/router.hpp"
#include "core/rules/field.hpp"

using namespace sluice;
using namespace sluice::admin;
using rules::Json;

TEST_SUITE_BEGIN("admin/openapi");

namespace {

// The member at a path; null when there is none.
const Json* at(const Json& root, std::initializer_list<std::string_view> path) {
    const Json* here = &root;
    for (const std::string_view name : path) {
        const Json::Object* object = here->object();
        if (object == nullptr) {
            return nullptr;
        }
        const auto it = object->find(name);
        if (it == object->end()) {
            return nullptr;
        }
        here = &it->second;
    }
    return here;
}

std::string text_at(const Json& root, std::initializer_list<std::string_view> path) {
    const Json* found = at(root, path);
    return found == nullptr ? "absent" : found->dump();
}

bool resolves(const Json& root, std::string_view reference) {
    if (reference.substr(0, 2) != "#/") {
        return false;
    }
    const Json* here = &root;
    for (const std::string_view part : openapi::split(reference.substr(2), '/')) {
        here = here == nullptr ? nullptr : at(*here, {part});
    }
    return here != nullptr;
}

template <class Visit>
void every_object(const Json& json, const Visit& visit) {
    if (const Json::Array* list = json.array()) {
        for (const Json& item : *list) {
            every_object(item, visit);
        }
    }
    if (const Json::Object* object = json.object()) {
        visit(*object);
        for (const auto& [name, value] : *object) {
            every_object(value, visit);
        }
    }
}

bool is_sentence(std::string_view text) {
    return text.size() > 3 && text.back() == '.';
}

bool is_sentence_at(const Json& field) {
    const Json* about = at(field, {"description"});
    return about != nullptr && is_sentence(*about->text());
}

const Json& document() {
    static const Json kDocument = openapi::document("1.2.3");
    return kDocument;
}

}  // namespace

TEST_CASE("the document is JSON and says its version") {
    simdjson::dom::parser parser;
    const std::string text = document().dump();
    CHECK(parser.parse(text).error() == simdjson::SUCCESS);
    CHECK(text_at(document(), {"openapi"}) == "\"3.1.0\"");
    CHECK(text_at(document(), {"info", "version"}) == "\"1.2.3\"");
}

TEST_CASE("every reference leads to something") {
    std::size_t found = 0;
    every_object(document(), [&found](const Json::Object& object) {
        if (const auto it = object.find("$ref"); it != object.end()) {
            CAPTURE(it->second.dump());
            CHECK(resolves(document(), *it->second.text()));
            ++found;
        }
    });
    CHECK(found > 100);
    CHECK_FALSE(resolves(document(), "#/components/schemas/Nothing"));
}

TEST_CASE("every route says what it is for, what it takes and what it answers") {
    const auto is_known = [](std::string_view what) {
        return what.empty() || what.find('/') != std::string_view::npos ||
               at(document(), {"components", "schemas", what}) != nullptr;
    };
    for (const Topic& topic : topics()) {
        for (const Route& route : topic.routes) {
            CAPTURE(std::string(route.method));
            CAPTURE(std::string(route.pattern));
            CHECK(is_sentence(route.summary));
            CHECK(is_known(route.body));
            CHECK(is_known(route.reply));
            CHECK(route.success >= 200);
            CHECK(route.success < 300);
            CHECK((route.success != 204 || route.reply.empty()));
            for (const Param& param : route.query) {
                CHECK(is_sentence(param.about));
                CHECK((param.max == 0 || param.min <= param.max));
            }
            for (const std::string_view one : openapi::split(route.may, ' ')) {
                CAPTURE(std::string(one));
                const auto parts = openapi::split(one, ':');
                CHECK(at(document(), {"components", "responses", parts[0]}) != nullptr);
                CHECK((parts.size() == 1 || is_known(parts[1])));
            }
        }
    }
}

TEST_CASE("schemas are objects, and no name is given to two") {
    std::set<std::string_view> names;
    for (const Topic& topic : topics()) {
        for (const Schema& schema : topic.schemas) {
            CAPTURE(std::string(schema.name));
            CHECK_FALSE(openapi::parsed_schema(schema.json).empty());
            CHECK(names.insert(schema.name).second);
            // The one in the document is the topic's, so no generated one has its name.
            CHECK(*at(document(), {"components", "schemas", schema.name}) ==
                  Json(openapi::parsed_schema(schema.json)));
        }
    }
    every_object(document(), [](const Json::Object& object) {
        if (const auto it = object.find("schema"); it != object.end()) {
            CHECK_FALSE(it->second.object()->empty());
        }
    });
}

TEST_CASE("operations have ids of their own") {
    std::set<std::string> ids;
    std::size_t count = 0;
    every_object(document(), [&](const Json::Object& object) {
        if (const auto it = object.find("operationId"); it != object.end()) {
            CAPTURE(*it->second.text());
            CHECK(ids.insert(*it->second.text()).second);
            ++count;
        }
    });
    CHECK(count > 50);
    CHECK(openapi::operation_id("GET", "/metrics") == "get_root_metrics");
    CHECK(openapi::operation_id("DELETE", "/netlox/v1/config/endpoint/epipaddress/{ip}") ==
          "delete_config_endpoint_epipaddress_by_ip");
    CHECK(openapi::operation_id("GET", "/netlox/v1/config/x-y/id/{id}") == "get_config_x_y_id");
}

TEST_CASE("a route's row becomes its operation") {
    const Json& all = document();
    const std::string_view by_key =
        "/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/{proto}";
    const Json::Array& parameters = *at(all, {"paths", by_key, "delete", "parameters"})->array();
    CHECK(text_at(parameters[1], {"schema"}) ==
          R"({"maximum":65535,"minimum":1,"type":"integer"})");
    CHECK(text_at(parameters[2], {"schema", "enum"}) == R"(["tcp","udp","sctp","icmp"])");
    CHECK(text_at(parameters[4], {"schema", "enum"}) == R"(["disabled","prefix","exact",""])");
    CHECK(text_at(all, {"paths", by_key, "delete", "x-sluice-role"}) == "\"admin\"");
    CHECK(text_at(all, {"paths", by_key, "get", "x-sluice-role"}) == "\"viewer\"");
    CHECK(text_at(all, {"paths", by_key, "get", "responses", "404", "$ref"}) ==
          "\"#/components/responses/404\"");

    const std::string_view post = "/netlox/v1/config/loadbalancer";
    CHECK(text_at(all, {"paths", post, "post", "requestBody", "content", "application/json",
                        "schema", "$ref"}) == "\"#/components/schemas/Rule\"");
    CHECK(text_at(all, {"paths", post, "post", "security"}) == "absent");
    CHECK(at(all, {"paths", post, "post", "responses", "411"}) != nullptr);

    CHECK(text_at(all, {"paths", "/netlox/v1/version", "get", "security"}) == "[]");
    CHECK(text_at(all, {"paths", "/netlox/v1/version", "get", "responses", "401"}) == "absent");
    CHECK(text_at(all, {"paths", "/metrics", "get", "responses", "503", "content", "text/plain",
                        "schema", "type"}) == "\"string\"");
}

TEST_CASE("what is not there is listed with its reason") {
    REQUIRE_FALSE(absent_routes().empty());
    for (const Absent& absent : absent_routes()) {
        for (const std::string_view method : openapi::split(absent.methods, ' ')) {
            std::string lower(method);
            std::transform(lower.begin(), lower.end(), lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            CAPTURE(std::string(absent.pattern));
            CAPTURE(lower);
            CHECK_FALSE(absent.reason.empty());
            CHECK(text_at(document(), {"paths", absent.pattern, lower, "x-sluice-absent"}) ==
                  "true");
            CHECK(at(document(), {"paths", absent.pattern, lower, "responses", "501"}) != nullptr);
        }
    }
}

TEST_CASE("a field's row becomes its schema") {
    const auto of = [](std::string_view name) {
        return *at(document(), {"components", "schemas", "ServiceArguments", "properties", name});
    };
    CHECK(text_at(of("port"), {"minimum"}) == "1");
    CHECK(text_at(of("port"), {"maximum"}) == "65535");
    CHECK(text_at(of("kvMinMatchTokens"), {"default"}) == "16");
    CHECK(text_at(of("kvMinMatchTokens"), {"x-sluice-env"}) == "\"LLB_KV_MIN_MATCH_TOKENS\"");
    CHECK(text_at(of("kvMinMatchTokens"), {"x-sluice-standing"}) == "\"built\"");
    CHECK(text_at(of("path_match_mode"), {"enum"}) == R"(["disabled","prefix","exact",""])");
    CHECK(text_at(of("protocol"), {"x-sluice-built"}) == R"(["tcp"])");
    CHECK(text_at(of("security"), {"x-sluice-built"}) == "[0]");
    CHECK(text_at(of("timeouts"), {"properties", "connect_ms", "default"}) == "2000");
    CHECK(text_at(of("timeouts"), {"additionalProperties"}) == "false");
    CHECK(text_at(of("model_aliases"), {"additionalProperties", "type"}) == "\"string\"");
    CHECK(text_at(of("effective"), {"readOnly"}) == "true");
    CHECK(text_at(of("kvEngineType"), {"x-sluice-immutable"}) == "true");
    CHECK(text_at(document(), {"components", "schemas", "Rule", "required"}) ==
          R"(["serviceArguments","endpoints"])");
    CHECK(text_at(document(), {"components", "schemas", "Rule", "properties", "endpoints", "items",
                               "$ref"}) == "\"#/components/schemas/Endpoint\"");
    CHECK(text_at(document(), {"components", "schemas", "RulePatch", "required"}) == "absent");
}

TEST_CASE("every field says what it means, and a read-only one what it is when it is read") {
    for (const char* schema : {"Rule", "ServiceArguments", "Endpoint", "AllowedSource"}) {
        for (const auto& [name, field] :
             *at(document(), {"components", "schemas", schema, "properties"})->object()) {
            CAPTURE(name);
            CHECK((at(field, {"type"}) != nullptr || at(field, {"$ref"}) != nullptr));
            CHECK((is_sentence_at(field) || at(field, {"$ref"}) != nullptr));
        }
    }
}

TEST_CASE("codes are sorted, said once, and explained") {
    std::string_view previous;
    for (const openapi::CodeRow& row : openapi::codes()) {
        CAPTURE(std::string(row.code));
        CHECK(previous < row.code);
        CHECK(is_sentence(row.about));
        for (const std::string_view status : openapi::split(row.statuses, ' ')) {
            CHECK(status.size() == 3);
            CHECK((at(document(), {"components", "responses", status}) != nullptr ||
                   status == "405"));
        }
        previous = row.code;
    }
    CHECK(at(document(), {"components", "schemas", "Error", "x-sluice-codes"})->array()->size() ==
          openapi::codes().size());
}

TEST_CASE("the description of a rule has every field in the tables' order") {
    const Json described = openapi::meta();
    const Json::Array& fields = *at(described, {"fields"})->array();
    const auto is_of = [](std::string_view place) {
        return [place](const Json& row) {
            return *at(row, {"in"})->text() == place;
        };
    };
    auto row = std::find_if(fields.begin(), fields.end(), is_of("serviceArguments"));
    std::size_t seen = 0;
    for (const rules::Field& field : rules::service_fields()) {
        while (row != fields.end() && !is_of("serviceArguments")(*row)) {
            ++row;  // the members of the field before
        }
        REQUIRE(row != fields.end());
        CHECK(*at(*row, {"name"})->text() == field.name);
        ++row;
        ++seen;
    }
    CHECK(seen == rules::service_fields().size());
    CHECK(std::count_if(fields.begin(), fields.end(), is_of("timeouts")) == 7);
    CHECK(std::count_if(fields.begin(), fields.end(), is_of("endpoints[]")) ==
          static_cast<std::ptrdiff_t>(rules::endpoint_fields().size()));
}

TEST_SUITE_END();
