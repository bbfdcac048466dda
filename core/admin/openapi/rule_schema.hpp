// The rule as JSON Schema 2020-12 and as a list for people, made from the field tables.
//
// Beside the words of JSON Schema a field says: x-sluice-standing (built | stored |
// not_supported_yet | read_only), x-sluice-built (the values there are, where not all are),
// x-sluice-env (the variable of the process default) and x-sluice-immutable.
//
// Threads: any.
#pragma once
#include "core/rules/json_value.hpp"

namespace sluice::admin::openapi {

// Rule, RulePatch, RuleEntry, RuleList, RuleStored, ServiceArguments, Endpoint, AllowedSource,
// Warning: by name.
rules::Json::Object rule_schemas();

// Every field a rule may have, in the tables' order, each with the place it stands in.
rules::Json::Array field_list();

}  // namespace sluice::admin::openapi
