// The paths of the OpenAPI document: one operation a row of the table of routes.
//
// Threads: any.
#pragma once
#include <string>
#include <string_view>

#include "core/rules/json_value.hpp"

namespace sluice::admin::openapi {

// Routes that there are, and those that answer 501 with the reason.
rules::Json::Object paths();

// Stable and unique: "get", "/netlox/v1/config/x/{id}" -> "get_config_x_by_id".
std::string operation_id(std::string_view method, std::string_view pattern);

}  // namespace sluice::admin::openapi
