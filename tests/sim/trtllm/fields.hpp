// The request fields a build knows; any other is refused.
//
// Threads: any.
// Source:  contract sections 3.2 and 4.2; trtllm-serve's request models of mid-2025 to main.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/support/json.hpp"
#include "tests/sim/support/validate.hpp"
#include "tests/sim/trtllm/api_error.hpp"
#include "tests/sim/trtllm/era.hpp"

namespace sluice::sim::trtllm {

enum class Endpoint { Completions, Chat };

std::vector<Field> fields_of(Endpoint endpoint, Era era);
std::vector<Field> disagg_fields(Era era);
// What the build has against this body.
std::optional<ApiError> check_fields(const json::Value& body, Endpoint endpoint, Era era);
// The document of /openapi.json: the request models, as far as a client needs them.
std::string openapi(Era era);

}  // namespace sluice::sim::trtllm
