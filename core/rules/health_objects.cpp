#include "core/rules/health_objects.hpp"

#include <algorithm>
#include <array>

#include "core/rules/field.hpp"
#include "core/rules/json_value.hpp"
#include "core/rules/key.hpp"

namespace sluice::rules {
namespace {

using Kind = ProbeSpec::Kind;

constexpr std::size_t kMaxName = 256;
constexpr std::size_t kMaxPath = 1024;
constexpr std::uint64_t kMaxRetries = 100;
constexpr std::uint64_t kMaxDuration = 86400;

constexpr const char* kTypes = "tcp, udp, sctp, ping, http, https, tls-hello or none";

constexpr std::array<std::string_view, 13> kMembers = {
    "hostName",   "name",        "inactiveReTries", "probeType", "probeReq",
    "probeResp",  "urlPath",     "probeDuration",   "probePort", "httpMethod",
    "domainName", "httpVersion", "expectedCodes"};

Refusal bad(const char* field, std::string message, std::string allowed) {
    return {400, "malformed_health_object", field, std::move(message), std::move(allowed)};
}

// Reads members of one object and remembers the first that is wrong.
class Reader {
public:
    explicit Reader(const Json::Object& object) : object_(object) {}

    std::string text(const char* name, std::size_t most) {
        const Json* value = find(name);
        if (value == nullptr) {
            return {};
        }
        if (value->text() == nullptr) {
            complain(422, "wrong_type", name, "text");
            return {};
        }
        if (value->text()->size() > most) {
            complain(400, "malformed_text", name, "at most " + std::to_string(most) + " bytes");
            return {};
        }
        return *value->text();
    }
    std::uint64_t number(const char* name, std::uint64_t most, std::uint64_t otherwise) {
        const Json* value = find(name);
        if (value == nullptr) {
            return otherwise;
        }
        const bool is_number =
            value->unsigned_integer() != nullptr || value->negative_integer() != nullptr;
        if (!is_number) {
            complain(422, "wrong_type", name, "a whole number");
            return otherwise;
        }
        if (value->unsigned_integer() == nullptr || *value->unsigned_integer() > most) {
            complain(422, "out_of_range", name, "0.." + std::to_string(most));
            return otherwise;
        }
        return *value->unsigned_integer();
    }
    std::optional<Refusal> refusal;

private:
    const Json* find(const char* name) const {
        const auto it = object_.find(name);
        return it == object_.end() ? nullptr : &it->second;
    }
    void complain(int status, const char* code, const char* name, std::string allowed) {
        if (!refusal) {
            refusal = Refusal{status, code, name, std::string(name) + " must be " + allowed,
                              std::move(allowed)};
        }
    }
    const Json::Object& object_;
};

bool is_path(std::string_view path) {
    return std::all_of(path.begin(), path.end(),
                       [](unsigned char c) { return c > ' ' && c != 0x7F; });
}

std::optional<Refusal> take_type(Reader& in, HealthObject& out) {
    const std::string type = in.text("probeType", 16);
    const std::uint64_t port = in.number("probePort", UINT16_MAX, 0);
    if (in.refusal) {
        return in.refusal;
    }
    out.probe.kind = probe_kind(type);
    if (out.probe.kind == Kind::None && !type.empty() && type != "none") {
        return Refusal{422, "unknown_value", "probeType", "there is no such probe", kTypes};
    }
    if (has_port(out.probe.kind) == (port == 0)) {
        const std::string word(probe_type(out.probe.kind));
        return bad("probePort",
                   port != 0 ? "a probe of type " + word + " takes no probePort"
                             : "a probe of type " + word + " needs a probePort",
                   port != 0 ? "absent or 0" : "1..65535");
    }
    out.probe.port = static_cast<std::uint16_t>(port);
    return std::nullopt;
}

std::optional<Refusal> take_path(const std::string& asked, const std::string& url,
                                 ProbeSpec& probe) {
    if (!asked.empty() && !url.empty() && asked != url) {
        return bad("urlPath", "urlPath and probeReq are both the path and differ", "one of them");
    }
    const std::string& path = url.empty() ? asked : url;
    if (!is_path(path)) {
        return bad(url.empty() ? "probeReq" : "urlPath", "a URL path has no white space",
                   "a URL path");
    }
    probe.path = path.empty() || path.front() != '/' ? "/" + path : path;
    return std::nullopt;
}

// What is asked and what the answer must hold.
std::optional<Refusal> take_question(Reader& in, ProbeSpec& probe) {
    const std::string asked = in.text("probeReq", kMaxPath);
    const std::string url = in.text("urlPath", kMaxPath);
    probe.reply = in.text("probeResp", kMaxPath);
    if (in.refusal) {
        return in.refusal;
    }
    const bool has_answer = is_http(probe.kind) || is_bytes(probe.kind);
    if (!has_answer && !(asked.empty() && probe.reply.empty())) {
        return bad(asked.empty() ? "probeResp" : "probeReq",
                   "a probe of type " + std::string(probe_type(probe.kind)) +
                       " sends no text and takes none",
                   "http, https, tcp, udp or sctp as probeType");
    }
    if (is_http(probe.kind)) {
        return take_path(asked, url, probe);
    }
    if (!url.empty()) {
        return bad("urlPath", "only an http or https probe has a path",
                   "http or https as probeType");
    }
    probe.request = asked;
    return std::nullopt;
}

// The value of an endpoint's field of the same name has the same words.
std::optional<Refusal> check_word(const char* name, const std::string& value) {
    const Field* field = find_field(endpoint_fields(), name);
    return value.empty() ? std::nullopt : check_value(*field, Json(value), name);
}

std::optional<Refusal> take_http(Reader& in, ProbeSpec& probe) {
    const std::string method = in.text("httpMethod", 16);
    const std::string codes = in.text("expectedCodes", 256);
    const std::string version = in.text("httpVersion", 8);
    const std::string domain = in.text("domainName", 259);
    if (in.refusal) {
        return in.refusal;
    }
    const bool is_any = !method.empty() || !codes.empty() || !version.empty();
    if (is_any && !is_http(probe.kind)) {
        return bad("httpMethod", "only an http or https probe has a method, codes or a version",
                   "http or https as probeType");
    }
    if (!domain.empty() && !is_http(probe.kind) && probe.kind != Kind::TlsHello) {
        return bad("domainName", "only http, https and tls-hello probes name a domain",
                   "http, https or tls-hello as probeType");
    }
    for (const auto& [name, value] :
         {std::pair{"httpMethod", &method}, std::pair{"httpVersion", &version}}) {
        if (auto refusal = check_word(name, *value)) {
            return refusal;
        }
    }
    if (!codes.empty() && !is_status_list(codes)) {
        return bad("expectedCodes", "expectedCodes must be status codes",
                   "200, 200,202 or 200-204");
    }
    if (!domain.empty() && !is_domain(domain)) {
        return bad("domainName", "domainName must be a host name",
                   "a host name, with or without port");
    }
    if (!probe.reply.empty() && !has_answer_body(method)) {
        return bad("probeResp", "the answer to " + method + " has no body that could hold it",
                   "another httpMethod, or no probeResp");
    }
    probe.method = method.empty() ? probe.method : method;
    probe.codes = codes.empty() ? probe.codes : codes;
    probe.version = version.empty() ? probe.version : version;
    probe.domain = domain;
    return std::nullopt;
}

Json::Object stored(const HealthObject& object) {
    const ProbeSpec& probe = object.probe;
    Json::Object out{{"hostName", object.host},
                     {"name", object.name},
                     {"inactiveReTries", probe.retries},
                     {"probeType", probe_type(probe.kind)},
                     {"probeReq", is_http(probe.kind) ? probe.path : probe.request},
                     {"probeResp", probe.reply},
                     {"probeDuration", probe.interval_sec},
                     {"probePort", probe.port},
                     {"domainName", probe.domain}};
    if (is_http(probe.kind)) {
        out.emplace("httpMethod", probe.method);
        out.emplace("expectedCodes", probe.codes);
        out.emplace("httpVersion", probe.version);
    }
    return out;
}

}  // namespace

std::string default_probe_name(const std::string& host, Kind kind, std::uint16_t port) {
    return host + "_" + std::string(probe_type(kind)) + "_" + std::to_string(port);
}

std::optional<Refusal> parse_health_object(std::string_view json, HealthObject& out) {
    const auto body = Json::parse(json);
    if (!body || body->object() == nullptr) {
        return Refusal{400, "malformed_json", "",
                       body ? "the body is " + std::string(body->kind()) : body.error().what,
                       "a JSON object"};
    }
    for (const auto& [name, value] : *body->object()) {
        if (std::find(kMembers.begin(), kMembers.end(), name) == kMembers.end()) {
            return Refusal{400, "unknown_field", name, "a health object has no " + name, ""};
        }
    }
    Reader in(*body->object());
    const std::string host = in.text("hostName", kMaxName);
    out.name = in.text("name", kMaxName);
    const std::uint64_t retries = in.number("inactiveReTries", kMaxRetries, 0);
    const std::uint64_t duration = in.number("probeDuration", kMaxDuration, 0);
    if (in.refusal) {
        return in.refusal;
    }
    if (host.empty()) {
        return Refusal{422, "required", "hostName", "hostName is required",
                       "an IPv4 or IPv6 address"};
    }
    const auto address = canonical_ip(host);
    if (!address) {
        return Refusal{400, "malformed_host", "hostName", "hostName must be a numeric address",
                       "an IPv4 or IPv6 address"};
    }
    out.host = *address;
    const ProbeSpec defaults;
    out.probe.retries = retries == 0 ? defaults.retries : static_cast<std::uint32_t>(retries);
    out.probe.interval_sec =
        duration == 0 ? defaults.interval_sec : static_cast<std::uint32_t>(duration);
    if (auto refusal = take_type(in, out)) {
        return refusal;
    }
    if (auto refusal = take_question(in, out.probe)) {
        return refusal;
    }
    if (auto refusal = take_http(in, out.probe)) {
        return refusal;
    }
    out.probe.address = out.host;
    if (out.name.empty()) {
        out.name = default_probe_name(out.host, out.probe.kind, out.probe.port);
    }
    out.json = Json(stored(out)).dump();
    return std::nullopt;
}

std::optional<Refusal> HealthObjects::put(HealthObject object) {
    const Key key{object.host, object.name};
    if (objects_.size() >= kMaxObjects && find(key) == nullptr) {
        return Refusal{403, "health_object_hwm", "",
                       "there are " + std::to_string(kMaxObjects) + " health objects already",
                       "at most " + std::to_string(kMaxObjects) + " health objects"};
    }
    std::size_t bytes = object.json.size() + 2;
    for (const auto& [other, stored] : objects_) {
        bytes += other == key ? 0 : stored.json.size() + 1;
    }
    if (bytes > Json::kMaxBytes) {
        return Refusal{403, "health_object_hwm", "", "the health objects are too long together",
                       std::to_string(Json::kMaxBytes) + " bytes of names and paths"};
    }
    objects_.insert_or_assign(key, std::move(object));
    return std::nullopt;
}

const HealthObject* HealthObjects::find(const Key& key) const {
    const auto it = objects_.find(key);
    return it == objects_.end() ? nullptr : &it->second;
}

Result<HealthObjects> HealthObjects::parse(std::string_view json) {
    HealthObjects out;
    if (json.empty()) {
        return out;
    }
    const auto list = Json::parse(json);
    if (!list) {
        return list.error();
    }
    if (list->array() == nullptr) {
        return Error{Code::Invalid, "not a list of health objects"};
    }
    for (const Json& one : *list->array()) {
        HealthObject object;
        if (auto refusal = parse_health_object(one.dump(), object)) {
            return Error{Code::Invalid, refusal->message};
        }
        const Key key{object.host, object.name};
        out.objects_.insert_or_assign(key, std::move(object));
    }
    return out;
}

std::string HealthObjects::dump() const {
    std::string out = "[";
    for (const auto& [key, object] : objects_) {
        out += out.size() > 1 ? "," : "";
        out += object.json;
    }
    return out + "]";
}

}  // namespace sluice::rules
