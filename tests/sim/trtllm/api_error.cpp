#include "tests/sim/trtllm/api_error.hpp"

#include "tests/sim/support/utf8.hpp"

namespace sluice::sim::trtllm {
namespace {

std::string in_quotes(std::string_view s) {
    const char mark =
        s.find('\'') != std::string_view::npos && s.find('"') == std::string_view::npos ? '"'
                                                                                        : '\'';
    std::string out(1, mark);
    for (const char c : s) {
        if (c == mark || c == '\\') {
            out += '\\';
        }
        out += c == '\n' ? "\\n" : std::string(1, c);
    }
    return out + mark;
}

}  // namespace

std::string ApiError::body() const {
    json::Writer w;
    w.open_object().field("object", "error").field("message", message);
    w.field("type", status >= 500 ? "InternalServerError" : "BadRequestError");
    w.null_field("param").field("code", static_cast<std::int64_t>(status)).close_object();
    return w.take();
}

http::Response ApiError::response() const {
    http::Response r = json_reply(body());
    r.status = status;
    return r;
}

http::Response json_reply(std::string body) {
    http::Response r;
    r.has_vary = false;
    r.body = std::move(body);
    return r;
}

http::Response detail(int status, std::string_view text) {
    http::Response r =
        json_reply(json::Writer().open_object().field("detail", text).close_object().take());
    r.status = status;
    return r;
}

std::string repr(const json::Value& v) {
    if (v.is_null()) {
        return "None";
    }
    if (const bool* b = v.boolean()) {
        return *b ? "True" : "False";
    }
    if (const std::string* s = v.text()) {
        return in_quotes(*s);
    }
    std::string out;
    if (const json::Array* a = v.array()) {
        for (const json::Value& item : *a) {
            out += (out.empty() ? "" : ", ") + repr(item);
        }
        return "[" + out + "]";
    }
    if (const json::Object* o = v.object()) {
        for (const json::Member& m : *o) {
            out += (out.empty() ? "" : ", ") + in_quotes(m.key) + ": " + repr(m.value);
        }
        return "{" + out + "}";
    }
    return json::Writer().value(v).take();
}

std::string finding(const FieldComplaint& c, std::string_view inside) {
    const std::string within = inside.empty() ? "" : in_quotes(inside) + ", ";
    return "{'type': " + in_quotes(c.type) + ", 'loc': ('body', " + within + in_quotes(c.name) +
           "), 'msg': " + in_quotes(c.message) + ", 'input': " + repr(*c.input) + "}";
}

ApiError invalid_request(const std::vector<std::string>& findings) {
    std::string text;
    for (const std::string& f : findings) {
        text += (text.empty() ? "" : ", ") + f;
    }
    return ApiError{400, "[" + text + "]"};
}

ApiError invalid_value(const std::string& message, const json::Value& body) {
    return invalid_request({"{'type': 'value_error', 'loc': ('body',), 'msg': " +
                            in_quotes("Value error, " + message) + ", 'input': " + repr(body) +
                            ", 'ctx': {'error': ValueError(" + in_quotes(message) + ")}}"});
}

std::variant<json::Value, http::Response> read_body(const http::Request& request) {
    if (request.body.empty()) {
        return ApiError{400,
                        "[{'type': 'missing', 'loc': ('body',), 'msg': 'Field required', "
                        "'input': None}]"}
            .response();
    }
    if (!utf8::valid(request.body)) {
        return detail(400, "There was an error parsing the body");
    }
    auto parsed = json::parse(request.body);
    if (const auto* e = std::get_if<json::ParseError>(&parsed)) {
        return ApiError{400, "[{'type': 'json_invalid', 'loc': ('body', " +
                                 std::to_string(e->position) +
                                 "), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': " +
                                 in_quotes(e->message) + "}}]"}
            .response();
    }
    json::Value& v = std::get<json::Value>(parsed);
    if (v.object() == nullptr) {
        return ApiError{400,
                        "[{'type': 'model_attributes_type', 'loc': ('body',), 'msg': 'Input should "
                        "be a valid dictionary or object to extract fields from', 'input': " +
                            repr(v) + "}]"}
            .response();
    }
    return std::move(v);
}

const FailureShapes& failure_shapes() {
    static constexpr FailureShapes kShapes{
        [](int status) { return ApiError{status, "fault asked for"}.response(); },
        [] { return ApiError{400, "LLM is shutting down"}.response(); },
        [] { return ApiError{400, "Fatal error detected in the executor"}.response(); },
        [] { return ApiError{500, "Fatal error detected in the executor"}.body(); },
        [] { return ApiError{500, "Internal server error"}.response(); },
        [] { return ApiError{500, "Internal server error"}.body(); },
    };
    return kShapes;
}

}  // namespace sluice::sim::trtllm
