// A rule as a row of the store, and what an operator hears when the store says no.
//
// Threads: any.
#pragma once
#include "core/base/result.hpp"
#include "core/rules/refusal.hpp"
#include "core/rules/rule.hpp"
#include "state/state.hpp"

namespace sluice::rules {

state::RuleRow row_of(const Rule& rule, std::uint32_t next_ep_idx);
Refusal store_refusal(const Error& error);
// The change before takes too long.
Refusal busy_refusal();

// What is known of a stored body that need not be accepted any more: enough to find it.
struct Described {
    std::string name;
    RuleKey key;
};
Described described(const std::string& body);

}  // namespace sluice::rules
