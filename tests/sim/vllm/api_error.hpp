// Refusals as vLLM words and shapes them.
//
// Threads: any; values.
// Source:  captures comp-*, chat-*; vLLM 0.32 VLLMValidationError, FastAPI's validation handler.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/sim/support/exchange.hpp"
#include "tests/sim/support/json.hpp"
#include "tests/sim/support/validate.hpp"

namespace sluice::sim::vllm {

struct ApiError {
    int status = 400;
    std::string message;
    std::string type = "BadRequestError";
    std::optional<std::string> param;

    std::string body(json::Style style = json::Style::Compact) const;
    http::Response response() const;
};

// Empty: no objection.
using Check = std::optional<ApiError>;

inline ApiError refuse(std::string message) {
    return ApiError{400, std::move(message), "BadRequestError", {}};
}
// "... (parameter=name)" and "... (parameter=name, value=v)".
ApiError refuse_param(std::string message, std::string_view param);
ApiError refuse_value(std::string message, std::string_view param, std::string_view value);
ApiError model_not_found(std::string_view model, const std::vector<std::string>& known);
ApiError engine_dead();
// {"detail": "..."} of the web framework.
http::Response detail(int status, std::string_view text);
http::Response unauthorized();
// What a draining engine says: made outside of the app, then a close nobody announced.
http::Response draining();

// One finding of the request model's validation.
struct Finding {
    std::string type;
    std::string location;  // body.max_tokens
    std::string message;
    std::string input;  // as Python shows it, cut short
    std::string context;
};
ApiError invalid_request(const std::vector<Finding>& findings);
// How the error text names a value: 'x', None, <dict of 2 items>.
std::string shown(const json::Value& v);

// Parses a body as FastAPI does; the refusals are those of its validation.
std::variant<json::Value, http::Response> read_body(const http::Request& request);

Check validate(const json::Value& body, const std::vector<Field>& fields);

}  // namespace sluice::sim::vllm
