#include "core/admin/openapi/paths.hpp"

#include <algorithm>

#include "core/admin/openapi/words.hpp"
#include "core/admin/router.hpp"

namespace sluice::admin::openapi {
namespace {

using rules::Json;

constexpr std::string_view kBase = "/netlox/v1/";

// What a {name} of a pattern stands for. A name that is not here is text.
struct Part {
    std::string_view name;
    std::string_view schema;
    std::string_view about;
};

constexpr Part kParts[] = {
    {"ip", R"({"type":"string","minLength":1,"maxLength":64})", "An IPv4 or IPv6 address."},
    {"port", R"({"type":"integer","minimum":1,"maximum":65535})", "The port."},
    {"portmax", R"({"type":"integer","minimum":1,"maximum":65535})", "The last port of a range."},
    {"proto", R"({"type":"string","enum":["tcp","udp","sctp","icmp"]})", "The protocol."},
    {"hosturl", R"({"type":"string","minLength":1,"maxLength":255})",
     "The rule's host; `any` is none."},
    {"id", R"({"type":"string","minLength":1})", "The id."},
    {"name", R"({"type":"string","minLength":1})", "The name."},
};

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return out;
}

Json path_parameter(std::string_view name) {
    Json::Object out{{"name", name}, {"in", "path"}, {"required", true}};
    const auto* part = std::find_if(std::begin(kParts), std::end(kParts),
                                    [name](const Part& p) { return p.name == name; });
    const bool is_known = part != std::end(kParts);
    out.emplace("schema",
                parsed_schema(is_known ? part->schema : R"({"type":"string","minLength":1})"));
    if (is_known) {
        out.emplace("description", part->about);
    }
    return out;
}

Json::Object query_schema(const Param& param) {
    switch (param.kind) {
        case Param::Kind::Flag:
            return {{"type", "boolean"}};
        case Param::Kind::Number: {
            Json::Object out{{"type", "integer"}, {"minimum", param.min}};
            if (param.max != 0) {
                out.emplace("maximum", param.max);
            }
            return out;
        }
        case Param::Kind::Text:
            break;
    }
    Json::Object out{{"type", "string"}};
    if (param.one_of.empty()) {
        out.emplace("maxLength", Router::kMaxText);
        return out;
    }
    Json::Array values;
    for (const std::string_view word : split(param.one_of, '|')) {
        values.emplace_back(word);
    }
    out.emplace("enum", std::move(values));
    return out;
}

Json::Array parameters(std::string_view pattern, std::span<const Param> query) {
    Json::Array out;
    for (const std::string_view part : split(pattern, '/')) {
        if (!part.empty() && part.front() == '{') {
            out.push_back(path_parameter(part.substr(1, part.size() - 2)));
        }
    }
    for (const Param& param : query) {
        out.emplace_back(Json::Object{{"name", param.name},
                                      {"in", "query"},
                                      {"required", param.is_required},
                                      {"description", param.about},
                                      {"schema", query_schema(param)}});
    }
    return out;
}

// `what` is the name of a schema, a media type, or empty.
Json::Object content_of(std::string_view what) {
    if (what.empty()) {
        return {};
    }
    if (what.find('/') != std::string_view::npos) {
        return {{std::string(what), Json::Object{{"schema", Json::Object{{"type", "string"}}}}}};
    }
    return {{"application/json", Json::Object{{"schema", reference(what)}}}};
}

Json answer_with(std::string_view about, std::string_view what) {
    Json::Object out{{"description", about}};
    if (Json::Object content = content_of(what); !content.empty()) {
        out.emplace("content", std::move(content));
    }
    return out;
}

Json refusal_answer(std::string_view status) {
    return Json::Object{{"$ref", "#/components/responses/" + std::string(status)}};
}

// "404 503:Ready": the 503 has a body of its own.
void add_further(Json::Object& out, std::string_view list) {
    for (const std::string_view one : split(list, ' ')) {
        const auto parts = split(one, ':');
        if (parts.size() == 2) {
            out.insert_or_assign(std::string(parts[0]), answer_with("Not now.", parts[1]));
        } else {
            out.insert_or_assign(std::string(one), refusal_answer(one));
        }
    }
}

Json::Object responses(const Route& route) {
    Json::Object out;
    out.emplace(std::to_string(route.success), answer_with("Done.", route.reply));
    add_further(out, route.access == Access::Public ? "400 408 421 431 500"
                                                    : "400 401 403 408 421 429 431 500");
    if (route.method != "GET" && route.access != Access::Reading) {
        add_further(out, "503");  // maintenance
    }
    if (!route.body.empty()) {
        add_further(out, "411 413");
    }
    if (route.pattern.find('{') != std::string_view::npos) {
        add_further(out, "404");  // also of a name that is no text
    }
    add_further(out, route.may);
    return out;
}

Json request_body(const Route& route) {
    Json::Object content = content_of(route.body);
    if (route.method == "PATCH" && content.contains("application/json")) {
        content.emplace("application/merge-patch+json", content.at("application/json"));
    }
    return Json::Object{{"required", true}, {"content", std::move(content)}};
}

std::string_view role_of(const Route& route) {
    const bool is_reading = route.method == "GET" || route.method == "HEAD";
    switch (route.access) {
        case Access::Public:
            return "none";
        case Access::Reading:
            return "viewer";
        case Access::Admin:
            return "admin";
        case Access::ByMethod:
            break;
    }
    return is_reading ? "viewer" : "admin";
}

Json operation(const Topic& topic, const Route& route) {
    Json::Object out{{"operationId", operation_id(route.method, route.pattern)},
                     {"summary", route.summary},
                     {"tags", Json::Array{topic.name}},
                     {"responses", responses(route)},
                     {"x-sluice-role", role_of(route)}};
    if (Json::Array all = parameters(route.pattern, route.query); !all.empty()) {
        out.emplace("parameters", std::move(all));
    }
    if (!route.body.empty()) {
        out.emplace("requestBody", request_body(route));
    }
    if (route.access == Access::Public) {
        out.emplace("security", Json::Array{});
    }
    return out;
}

Json absent_operation(std::string_view method, const Absent& absent) {
    Json::Object answers;
    add_further(answers, absent.pattern.find('{') == std::string_view::npos
                             ? "400 401 403 421 429 431 501"
                             : "400 401 403 404 421 429 431 501");
    Json::Object out{{"operationId", operation_id(method, absent.pattern)},
                     {"summary", absent.reason},
                     {"tags", Json::Array{"absent"}},
                     {"responses", std::move(answers)},
                     {"x-sluice-absent", true}};
    if (Json::Array all = parameters(absent.pattern, {}); !all.empty()) {
        out.emplace("parameters", std::move(all));
    }
    return out;
}

Json::Object& item_of(Json::Object& paths, std::string_view pattern) {
    return *paths.try_emplace(std::string(pattern), Json::Object{}).first->second.object();
}

}  // namespace

std::string operation_id(std::string_view method, std::string_view pattern) {
    std::string out = lower(method);
    if (pattern.substr(0, kBase.size()) == kBase) {
        pattern.remove_prefix(kBase.size());
    } else {
        out += "_root";  // beside the interface: /metrics
    }
    std::string_view previous;
    for (const std::string_view part : split(pattern, '/')) {
        const bool is_name = !part.empty() && part.front() == '{';
        const std::string_view word = is_name ? part.substr(1, part.size() - 2) : part;
        if (!part.empty() && !(is_name && word == previous)) {
            out += (is_name ? "_by_" : "_") + lower(word);
        }
        previous = word;
    }
    std::replace_if(
        out.begin(), out.end(),
        [](char c) { return c != '_' && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'); }, '_');
    return out;
}

Json::Object paths() {
    Json::Object out;
    for (const Topic& topic : topics()) {
        for (const Route& route : topic.routes) {
            item_of(out, route.pattern).emplace(lower(route.method), operation(topic, route));
        }
    }
    for (const Absent& absent : absent_routes()) {
        for (const std::string_view method : split(absent.methods, ' ')) {
            item_of(out, absent.pattern).emplace(lower(method), absent_operation(method, absent));
        }
    }
    return out;
}

}  // namespace sluice::admin::openapi
