// A POST body as a Rule, or why not.
//
// Pure: the same answer for the same input; identities (id, number, endpoint ids) are given later.
//
// Threads: any.
// Errors:  the first Refusal found. Nothing is clamped; what has no effect is said in a warning.
// Limits:  Json's for the body; 1024 endpoints.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/rules/defaults.hpp"
#include "core/rules/refusal.hpp"
#include "core/rules/rule.hpp"

namespace sluice::rules {

// Ids and aliases of the plugins that are loaded.
struct Loaded {
    std::vector<std::string> engines;
    std::vector<std::string> selectors;
};

struct Parsed {
    std::optional<Refusal> refusal;  // the rest is valid only without it
    Rule rule;                       // id as given, possibly empty; numbers 0
    std::vector<Warning> warnings;
};

Parsed parse_rule(std::string_view body, const Defaults& defaults, const Loaded& loaded);

}  // namespace sluice::rules
