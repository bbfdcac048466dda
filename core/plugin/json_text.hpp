// Small changes to the text of a JSON object, spelling kept.
//
// Threads: any. Control plane only: each call parses.
#pragma once
#include <string>
#include <string_view>

namespace sluice::plugin {

bool is_json_value(std::string_view json);
bool has_member(std::string_view object, std::string_view name);
// The object with one more member at its end. `object` is a JSON object, `json` a JSON value.
std::string with_member(std::string_view object, std::string_view name, std::string_view json);

}  // namespace sluice::plugin
