// Refusals as trtllm-serve words and shapes them: one flat object.
//
// Threads: any; values.
// Source:  contract section 1.5.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "tests/sim/engine/run.hpp"
#include "tests/sim/support/exchange.hpp"
#include "tests/sim/support/json.hpp"
#include "tests/sim/support/validate.hpp"

namespace sluice::sim::trtllm {

struct ApiError {
    int status = 400;
    std::string message;

    std::string body() const;
    http::Response response() const;
};

// {"detail": "..."} of the web framework.
http::Response detail(int status, std::string_view text);
http::Response json_reply(std::string body);
// One finding of the request model's validation, as a Python dict.
std::string finding(const FieldComplaint& c, std::string_view inside = {});
// A 400 whose message is the list of findings.
ApiError invalid_request(const std::vector<std::string>& findings);
// What a validator of the whole model says.
ApiError invalid_value(const std::string& message, const json::Value& body);
// How Python shows a value.
std::string repr(const json::Value& v);

// Parses a body as FastAPI does.
std::variant<json::Value, http::Response> read_body(const http::Request& request);

const FailureShapes& failure_shapes();

}  // namespace sluice::sim::trtllm
