// endpoints[].
#include <algorithm>
#include <tuple>

#include "core/rules/field.hpp"
#include "core/rules/key.hpp"
#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

std::uint64_t number_in(const Json::Object& object, std::string_view name) {
    const auto it = object.find(name);
    const auto* n = it == object.end() ? nullptr : it->second.unsigned_integer();
    return n == nullptr ? 0 : *n;
}

struct Entry {
    EndpointSpec spec;
    Json json;
};

bool before(const Entry& a, const Entry& b) {
    if (a.spec.ip != b.spec.ip) {
        return ip_less(a.spec.ip, b.spec.ip);
    }
    return std::tie(a.spec.port, a.spec.role) < std::tie(b.spec.port, b.spec.role);
}

std::string text_in(const Json::Object& object, std::string_view name) {
    const auto it = object.find(name);
    return it == object.end() ? std::string() : *it->second.text();
}

// How an endpoint of its own is probed.
std::optional<Refusal> take_monitor(const Json::Object& object, const std::string& where,
                                    MonitorSpec& out) {
    const auto malformed = [&where](const char* name, const char* allowed) {
        const std::string field = where + "." + name;
        return Refusal{400, "malformed_lbep", field, field + " is malformed", allowed};
    };
    if (const std::string given = text_in(object, "monitorAddress"); !given.empty()) {
        const auto address = canonical_ip(given);
        if (!address || is_multicast(*address) || is_unspecified(*address)) {
            return malformed("monitorAddress", "a numeric address");
        }
        out.address = *address;
    }
    out.method = text_in(object, "httpMethod");
    out.version = text_in(object, "httpVersion");
    out.codes = text_in(object, "expectedCodes");
    if (!out.codes.empty() && !is_status_list(out.codes)) {
        return malformed("expectedCodes", "200, 200,202 or 200-204");
    }
    out.path = text_in(object, "urlPath");
    if (!out.path.empty() && (out.path.front() != '/' || !is_probe_path(out.path))) {
        return malformed("urlPath", "a URL path that starts with /");
    }
    out.domain = text_in(object, "domainName");
    if (!out.domain.empty() && !is_domain(out.domain)) {
        return malformed("domainName", "a host name, with or without port");
    }
    return std::nullopt;
}

std::optional<Refusal> take_one(Json& json, const std::string& where, Entry& out,
                                std::vector<Warning>& warnings) {
    Json::Object* object = json.object();
    if (object == nullptr) {
        return Refusal{422, "wrong_type", where,
                       where + " must be an object, not " + std::string(json.kind()), "an object"};
    }
    if (auto refusal = check_object(endpoint_fields(), *object, where + ".")) {
        return refusal;
    }
    const auto ip = canonical_ip(*object->at("endpointIP").text());
    if (!ip || is_multicast(*ip) || is_unspecified(*ip)) {
        return Refusal{400, "malformed_lbep", where + ".endpointIP",
                       where + ".endpointIP must be a numeric IPv4 or IPv6 unicast address",
                       "a numeric address"};
    }
    if (auto refusal = take_monitor(*object, where, out.spec.monitor)) {
        return refusal;
    }
    warn_about_stored(endpoint_fields(), *object, where + ".", warnings);
    out.spec.ip = *ip;
    out.spec.port = static_cast<std::uint16_t>(number_in(*object, "targetPort"));
    out.spec.weight = static_cast<std::uint32_t>(number_in(*object, "weight"));
    out.spec.role = static_cast<std::uint32_t>(number_in(*object, "ep_role"));
    if (const auto backup = object->find("backup"); backup != object->end()) {
        out.spec.backup = *backup->second.boolean();
    }
    out.spec.nixl_port = static_cast<std::uint16_t>(number_in(*object, "nixl_port"));
    out.json = std::move(json);
    return std::nullopt;
}

}  // namespace

std::optional<Refusal> take_endpoints(Json::Array& endpoints, Draft& out) {
    if (endpoints.empty()) {
        const Field* field = find_field(body_fields(), "endpoints");
        return Refusal{400, "endpoints_range", "endpoints", "a rule needs at least one endpoint",
                       allowed_text(*field)};
    }
    std::vector<Entry> entries(endpoints.size());
    for (std::size_t i = 0; i < endpoints.size(); ++i) {
        const std::string where = "endpoints[" + std::to_string(i) + "]";
        if (auto refusal = take_one(endpoints[i], where, entries[i], out.warnings)) {
            return refusal;
        }
    }
    std::sort(entries.begin(), entries.end(), before);
    const auto twin = std::adjacent_find(
        entries.begin(), entries.end(),
        [](const Entry& a, const Entry& b) { return !before(a, b) && !before(b, a); });
    if (twin != entries.end()) {
        return Refusal{400,
                       "endpoint_duplicate",
                       "endpoints",
                       "endpoint " + twin->spec.name() + " is given twice",
                       {}};
    }
    if (std::all_of(entries.begin(), entries.end(),
                    [](const Entry& e) { return e.spec.weight == 0; })) {
        out.warnings.push_back(
            {"all_draining", "endpoints", "every endpoint has weight 0: nothing new is served"});
    }
    endpoints.clear();
    for (Entry& entry : entries) {
        out.rule.endpoints.push_back(std::move(entry.spec));
        endpoints.push_back(std::move(entry.json));
    }
    return std::nullopt;
}

void warn_about_stored(std::span<const Field> table, const Json::Object& given,
                       const std::string& prefix, std::vector<Warning>& out) {
    for (const auto& [name, value] : given) {
        const Field* field = find_field(table, name);
        if (field == nullptr || field->standing != Standing::Stored) {
            continue;
        }
        const bool is_empty = value == Json(false) || value == Json("") || value == Json(0);
        if (!is_empty) {
            out.push_back({"no_effect", prefix + name, "kept and read back, without effect"});
        }
    }
}

}  // namespace sluice::rules
