// Small pieces that the OpenAPI document is put together from.
//
// Threads: any.
#pragma once
#include <string_view>
#include <vector>

#include "core/rules/json_value.hpp"

namespace sluice::admin::openapi {

// "a|b|" -> "a", "b", "": as many parts as separators and one more; none for an empty list.
std::vector<std::string_view> split(std::string_view list, char separator);
// "a b" -> ["a","b"].
rules::Json::Array words(std::string_view list);
// {"$ref":"#/components/schemas/<name>"}
rules::Json::Object reference(std::string_view name);
// The text of a schema in the tables, which is a JSON object. An unreadable one becomes {}, which
// the unit test of the document finds.
rules::Json::Object parsed_schema(std::string_view json);

}  // namespace sluice::admin::openapi
