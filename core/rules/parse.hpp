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
#include <variant>
#include <vector>

#include "core/rules/defaults.hpp"
#include "core/rules/json_value.hpp"
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
    std::uint32_t oper = 0;  // 0 create or replace, 1 attach endpoints, 2 detach endpoints
};

// An object, or why the body is none.
std::variant<Json, Refusal> read_document(std::string_view body);
Parsed parse_rule(std::string_view body, const Defaults& defaults, const Loaded& loaded);
// `document` is an object.
Parsed parse_document(Json document, const Defaults& defaults, const Loaded& loaded);

}  // namespace sluice::rules
