#include "tests/sim/vllm/api_error.hpp"

#include "tests/sim/support/utf8.hpp"

namespace sluice::sim::vllm {

std::string ApiError::body(json::Style style) const {
    json::Writer w(style);
    w.open_object().key("error").open_object();
    w.field("message", message).field("type", type).key("param");
    if (param) {
        w.value(*param);
    } else {
        w.null();
    }
    w.field("code", static_cast<std::int64_t>(status)).close_object().close_object();
    return w.take();
}

http::Response ApiError::response() const {
    http::Response r;
    r.status = status;
    r.body = body();
    return r;
}

ApiError refuse_param(std::string message, std::string_view param) {
    ApiError e = refuse(std::move(message) + " (parameter=" + std::string(param) + ")");
    e.param = param;
    return e;
}

ApiError refuse_value(std::string message, std::string_view param, std::string_view value) {
    ApiError e = refuse(std::move(message) + " (parameter=" + std::string(param) +
                        ", value=" + std::string(value) + ")");
    e.param = param;
    return e;
}

ApiError model_not_found(std::string_view model, const std::vector<std::string>& known) {
    std::string list;
    for (const std::string& name : known) {
        list += (list.empty() ? "" : ", ") + name;
    }
    return ApiError{
        404, "The model `" + std::string(model) + "` does not exist. Valid aliases: " + list + ".",
        "NotFoundError", "model"};
}

ApiError engine_dead() {
    return ApiError{500,
                    "EngineCore encountered an issue. See stack trace (above) for the root cause.",
                    "InternalServerError",
                    {}};
}

http::Response detail(int status, std::string_view text) {
    http::Response r;
    r.status = status;
    r.body = json::Writer().open_object().field("detail", text).close_object().take();
    return r;
}

http::Response unauthorized() {
    http::Response r;
    r.status = 401;
    r.body = R"({"error":"Unauthorized"})";
    r.has_vary = false;
    return r;
}

http::Response draining() {
    http::Response r = ApiError{
        500,
        "cannot schedule new futures after shutdown",
        "InternalServerError",
        {}}.response();
    r.has_vary = false;
    return r;
}

ApiError invalid_request(const std::vector<Finding>& findings) {
    constexpr std::size_t kShown = 10;
    std::string text =
        std::to_string(findings.size()) + " validation error" + (findings.size() == 1 ? ":" : "s:");
    for (std::size_t i = 0; i < findings.size() && i < kShown; ++i) {
        const Finding& f = findings[i];
        text += "\n  {'type': '" + f.type + "', 'loc': '" + f.location + "', 'msg': '" + f.message +
                "', 'input': " + f.input + f.context + "}";
    }
    if (findings.size() > kShown) {
        text += "\n  ...and " + std::to_string(findings.size() - kShown) + " more errors";
    }
    return ApiError{400, text, "Bad Request", findings.front().location};
}

std::string shown(const json::Value& v) {
    if (v.is_null()) {
        return "'None'";
    }
    if (const auto* o = v.object()) {
        return "'<dict of " + std::to_string(o->size()) + " items>'";
    }
    if (const auto* a = v.array()) {
        return "'<list of " + std::to_string(a->size()) + " items>'";
    }
    if (const auto* s = v.text()) {
        constexpr std::size_t kMost = 60;
        return "'" + s->substr(0, utf8::whole_prefix(std::string_view(*s).substr(0, kMost))) + "'";
    }
    if (const auto* b = v.boolean()) {
        return *b ? "'True'" : "'False'";
    }
    return "'" + json::Writer().value(v).take() + "'";
}

std::variant<json::Value, http::Response> read_body(const http::Request& request) {
    const std::string* type = request.header("content-type");
    const std::string_view media =
        type == nullptr ? "" : std::string_view(*type).substr(0, type->find(';'));
    if (!http::equals_ignoring_case(media, "application/json")) {
        return ApiError{400,
                        "1 validation error:\n  Unsupported Media Type: Only 'application/json' "
                        "is allowed",
                        "Bad Request",
                        {}}
            .response();
    }
    if (request.body.empty()) {
        return invalid_request({{"missing", "body", "Field required", "'None'", ""}}).response();
    }
    if (!utf8::valid(request.body)) {
        return detail(400, "There was an error parsing the body");
    }
    auto parsed = json::parse(request.body);
    if (const auto* e = std::get_if<json::ParseError>(&parsed)) {
        return invalid_request(
                   {{"json_invalid", "body." + std::to_string(e->position), "JSON decode error",
                     "'<dict of 0 items>'", ", 'ctx': {'error': '" + e->message + "'}"}})
            .response();
    }
    json::Value& v = std::get<json::Value>(parsed);
    if (v.object() == nullptr) {
        return invalid_request({{"model_attributes_type", "body",
                                 "Input should be a valid dictionary or object to extract fields "
                                 "from",
                                 shown(v), ""}})
            .response();
    }
    return std::move(v);
}

Check validate(const json::Value& body, const std::vector<Field>& fields) {
    std::vector<Finding> findings;
    for (const FieldComplaint& c : complaints(body, fields)) {
        findings.push_back({c.type, "body." + c.name, c.message, shown(*c.input), ""});
    }
    return findings.empty() ? Check() : Check(invalid_request(findings));
}

}  // namespace sluice::sim::vllm
