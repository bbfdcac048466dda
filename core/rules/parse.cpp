#include "core/rules/parse.hpp"

#include <charconv>

#include "core/rules/field.hpp"
#include "core/rules/key.hpp"
#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

Parsed refused(Refusal refusal) {
    Parsed out;
    out.refusal = std::move(refusal);
    return out;
}

struct Found {
    const Field* field = nullptr;
    const Json* value = nullptr;
};

// "timeouts.connect_ms", "endpoints[1].weight": as refusals spell fields. Nothing when the body
// does not have it.
Found find_value(const Json& document, std::string_view path) {
    const Json::Object* object = document.object();
    std::span<const Field> table = body_fields();
    const std::string_view first = path.substr(0, path.find_first_of(".["));
    if (find_field(table, first) == nullptr) {
        const auto service = object->find("serviceArguments");
        object = service == object->end() ? nullptr : service->second.object();
        table = service_fields();
    }
    Found out;
    while (object != nullptr && !path.empty()) {
        const std::string_view name = path.substr(0, path.find_first_of(".["));
        const auto it = object->find(name);
        out.field = find_field(table, name);
        out.value = it == object->end() || out.field == nullptr ? nullptr : &it->second;
        path.remove_prefix(name.size());
        if (out.value == nullptr) {
            return {};
        }
        if (path.starts_with('[')) {
            std::size_t index = 0;
            const auto [end, ec] =
                std::from_chars(path.data() + 1, path.data() + path.size(), index);
            const Json::Array* list = out.value->array();
            if (ec != std::errc() || list == nullptr || index >= list->size()) {
                return {};
            }
            out.value = &(*list)[index];
            path.remove_prefix(static_cast<std::size_t>(end + 1 - path.data()));
            table = name == "endpoints" ? endpoint_fields() : source_fields();
        } else {
            table = out.field->members;
        }
        if (path.empty()) {
            return out;
        }
        path.remove_prefix(1);  // '.'
        object = out.value->object();
    }
    return {};
}

// A refusal says the value that is refused.
Refusal with_value(Refusal refusal, const Json& document) {
    const Found found = find_value(document, refusal.field);
    const bool is_plain = found.value != nullptr && found.value->object() == nullptr &&
                          found.value->array() == nullptr;
    if (!is_plain) {
        return refusal;
    }
    const std::string value = shown(*found.field, *found.value);
    if (refusal.message.find(value) == std::string::npos) {
        refusal.message += "; it is " + value;
    }
    return refusal;
}

bool is_id(std::string_view id) {
    return id.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-") ==
           std::string_view::npos;
}

std::optional<Refusal> take_names(const Effective& in, Draft& out) {
    out.rule.id = in.text("id");
    out.rule.name = in.text("name");
    if (!is_id(out.rule.id)) {
        return Refusal{400, "malformed_id", "id", "id holds something else than allowed",
                       "letters, digits and . _ : -"};
    }
    return std::nullopt;
}

// The rules between fields, before what we do not have: they have more to say.
std::optional<Refusal> take_service(Effective& in, const Defaults& defaults, Draft& out) {
    if (auto refusal = take_names(in, out)) {
        return refusal;
    }
    if (auto refusal = take_key(in, out)) {
        return refusal;
    }
    if (auto refusal = take_probe(in, out)) {
        return refusal;
    }
    if (auto refusal = take_limits(in, out)) {
        return refusal;
    }
    if (auto refusal = check_pool(in, out)) {
        return refusal;
    }
    if (auto refusal = take_pd(in, out)) {
        return refusal;
    }
    if (auto refusal = take_breaker(in, out)) {
        return refusal;
    }
    if (auto refusal = check_guard(in)) {
        return refusal;
    }
    if (auto refusal = take_kv(in, defaults, out)) {
        return refusal;
    }
    return check_event_addresses(in, out);
}

// After the rules between fields. The endpoints are `given`'s: those of `top` are in another order.
std::optional<Refusal> check_all_supported(const Json::Object& top, const Json& given) {
    if (auto refusal = check_supported(body_fields(), top, "")) {
        return refusal;
    }
    if (auto refusal =
            check_supported(service_fields(), *top.at("serviceArguments").object(), "")) {
        return refusal;
    }
    const Json::Array& endpoints = *given.object()->at("endpoints").array();
    for (std::size_t i = 0; i < endpoints.size(); ++i) {
        if (auto refusal = check_supported(endpoint_fields(), *endpoints[i].object(),
                                           "endpoints[" + std::to_string(i) + "].")) {
            return refusal;
        }
    }
    return std::nullopt;
}

// What says nothing is not kept, so that two spellings of one rule are one text.
void drop_silent(const Rule& rule, Json::Object& top) {
    if (rule.is_admin_up) {
        top.at("serviceArguments").object()->erase("adminStateUp");
    }
    for (const char* name : {"secondaryIPs", "secondaryVIPs"}) {
        top.erase(name);
    }
    if (rule.allowed_sources.empty()) {
        top.erase("allowedSources");
    }
}

}  // namespace

std::optional<Refusal> take_key(const Effective& in, Draft& out) {
    RuleKey& key = out.rule.key;
    key.ip = in.text("externalIP");
    key.port = in.u16("port");
    key.protocol = in.text("protocol");
    key.block = in.u32("block");
    key.host = in.text("host");
    key.path_prefix = in.text("path_prefix");
    key.path_mode = in.text("path_match_mode");
    key.model = in.text("model_name");
    if (key.block != 0) {
        out.warnings.push_back(
            {"no_effect", "block", "marks are not seen here: the rule takes unmarked traffic"});
    }
    if (auto refusal = normalise(key)) {
        return refusal;
    }
    const std::uint32_t last = in.u32("portMax");
    if (last != 0 && last < key.port) {
        return Refusal{400, "serv_port_range", "portMax",
                       "portMax is " + std::to_string(last) + ", below port",
                       "0 or " + std::to_string(key.port)};
    }
    if (last > key.port) {
        return Refusal{400, "not_supported_yet", "portMax",
                       "portMax is " + std::to_string(last) + ": port ranges are not supported yet",
                       "0 or " + std::to_string(key.port)};
    }
    return std::nullopt;
}

std::variant<Json, Refusal> read_document(std::string_view body) {
    auto document = Json::parse(body);
    if (!document) {
        const bool is_big = document.error().code == Code::Limit;
        return Refusal{is_big ? 413 : 400,
                       is_big ? "body_too_large" : "malformed_json",
                       "",
                       "request body: " + document.error().what,
                       {}};
    }
    if (document->object() == nullptr) {
        return Refusal{400, "malformed_json", "",
                       "request body must be an object, not " + std::string(document->kind()),
                       "an object with serviceArguments and endpoints"};
    }
    return std::move(*document);
}

Parsed parse_rule(std::string_view body, const Defaults& defaults, const Loaded& loaded) {
    auto document = read_document(body);
    if (auto* refusal = std::get_if<Refusal>(&document)) {
        return refused(std::move(*refusal));
    }
    return parse_document(std::move(std::get<Json>(document)), defaults, loaded);
}

Parsed parse_document(Json document, const Defaults& defaults, const Loaded& loaded) {
    const Json given = document;
    const auto refused_with = [&given](Refusal refusal) {
        return refused(with_value(std::move(refusal), given));
    };
    Json::Object& top = *document.object();
    if (auto refusal = check_object(body_fields(), top, "")) {
        return refused_with(std::move(*refusal));
    }
    Json::Object& service = *top.find("serviceArguments")->second.object();
    if (auto refusal = check_object(service_fields(), service, "")) {
        return refused_with(std::move(*refusal));
    }
    Draft draft;
    if (auto refusal = take_endpoints(*top.find("endpoints")->second.array(), draft)) {
        return refused_with(std::move(*refusal));
    }
    if (const auto sources = top.find("allowedSources"); sources != top.end()) {
        if (auto refusal = take_sources(*sources->second.array(), draft)) {
            return refused_with(std::move(*refusal));
        }
    }
    Effective effective(service, defaults);
    if (auto refusal = take_service(effective, defaults, draft)) {
        return refused_with(std::move(*refusal));
    }
    if (auto refusal = check_all_supported(top, given)) {
        return refused_with(std::move(*refusal));
    }
    if (auto refusal = take_plugins(effective, loaded, draft)) {
        return refused_with(std::move(*refusal));
    }
    warn_about_stored(service_fields(), service, "", draft.warnings);

    Parsed out;
    out.rule = std::move(draft.rule);
    out.warnings = std::move(draft.warnings);
    // The identity is the rule's and what a POST does is the request's: neither is the body's.
    out.oper = effective.u32("oper");
    Json::Object in_force = effective.values();
    for (const char* name : {"id", "oper"}) {
        service.erase(name);
        in_force.erase(name);
    }
    out.rule.effective = Json(std::move(in_force)).dump();
    drop_silent(out.rule, top);
    out.rule.json = document.dump();
    return out;
}

}  // namespace sluice::rules
