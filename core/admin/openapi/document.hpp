// The OpenAPI 3.1 document of the management interface, and what GET /meta says of rules.
//
// Made from the tables that requests are dispatched and checked by: routes and their parameters,
// the schemas of the topics, the rule's fields, the codes. So it cannot say something else than the
// gateway does, as far as the tables reach; tests/e2e compares the rest.
//
// Threads: any.
#pragma once
#include <string_view>

#include "core/rules/json_value.hpp"

namespace sluice::admin::openapi {

rules::Json document(std::string_view version);
rules::Json meta();

}  // namespace sluice::admin::openapi
