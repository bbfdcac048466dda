// Key material in a rule's body: what must not be shown, and how it comes back.
//
// Threads: any.
// Errors:  none; text that is no JSON object passes as it is.
// Limits:  recursion as deep as a Json document.
#pragma once
#include <string>
#include <string_view>

#include "core/rules/json_value.hpp"

namespace sluice::rules {

// What stands in the place of a secret.
inline constexpr std::string_view kHidden = "(hidden)";

// Whether a member of this name holds a secret: client_key_data, api_key, hmac_secret, password,
// ... Names of files are not secrets, their contents are never read here.
bool is_secret(std::string_view member);

// Puts kHidden in the place of every secret, however deep.
void hide_secrets(Json& document);
// A body as it may be audited.
std::string without_secrets(const std::string& body);

// Puts back what `known` has at the same place. The path of the first secret that it has not;
// empty when all are back.
std::string fill_secrets(Json& document, const Json* known);

}  // namespace sluice::rules
