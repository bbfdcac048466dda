// What an edit of a rule makes of the body that is stored, before it is validated as a whole.
//
// Threads: any (values).
// Errors:  a Refusal; nothing is changed then.
// Source:  RFC 7386 for merge patches; the management contract for what is immutable.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/rules/json_value.hpp"
#include "core/rules/parse.hpp"
#include "core/rules/refusal.hpp"
#include "core/rules/rule.hpp"

namespace sluice::rules {

using Edited = std::variant<Json, Refusal>;

// Whether the field is a part of the rule's key.
bool is_of_key(std::string_view name);

// 409: the field keeps its value while the rule lives.
Refusal immutable(std::string field, const std::string& message);

// The first immutable field besides the key in which two rules differ.
std::optional<std::string> changed_immutable(const Rule& next, const Rule& previous);

// What a POST cannot say and the rule of its key has: whether it is switched on, and the path of a
// key file that was sent back as it is shown. Checks the key file. `previous` may be null.
std::optional<Refusal> carry_over(Rule& rule, const Rule* previous, std::vector<Warning>& warnings);

// The stored body with `patch` merged in.
Edited merged(const Rule& previous, std::string_view patch);

// The stored body with the endpoints of `asked` added (one that is there is replaced) or taken out.
Edited with_endpoints(const Rule& previous, const Parsed& asked);

}  // namespace sluice::rules
