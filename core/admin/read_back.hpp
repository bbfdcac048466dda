// A rule as the management interface shows it: what was stored, what is in force, how it fares.
//
// Threads: control.
// Source:  the management contract's read-back with Sluice's additions.
#pragma once
#include "core/admin/providers.hpp"
#include "core/rules/json_value.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::admin {

rules::Json rule_entry(const rules::RulePtr& rule, const RuleLive& live,
                       const std::vector<rules::Warning>& warnings);
// A stored rule that is not in force; the reason is its warning.
rules::Json dormant_entry(const rules::Dormant& rule);
rules::Json warnings_json(const std::vector<rules::Warning>& warnings);

}  // namespace sluice::admin
