// What a rule's body must not show: key material and the paths of key files; and how it comes back.
//
// Threads: any.
// Errors:  none; text that is no JSON object passes as it is.
// Limits:  recursion as deep as a Json document.
#pragma once
#include <string>
#include <string_view>

#include "core/rules/json_value.hpp"

namespace sluice::rules {

// Stands where a secret is not shown. Sent back, it means the one the rule has.
inline constexpr std::string_view kHidden = "***";

// Whether a member of this name holds a secret: a hidden field of the table, or a name such as
// client_key_data, api_key, hmac_secret, password (of a plugin's configuration).
bool is_secret(std::string_view member);

// Puts kHidden in the place of every secret, however deep.
void hide_secrets(Json& document);
// A body as it may be shown; text that is no body comes back as it is.
std::string without_secrets(std::string_view body);

// Puts back what `known` has at the same place. The path of the first secret that it has not;
// empty when all are back.
std::string fill_secrets(Json& document, const Json* known);

}  // namespace sluice::rules
