// Configurations derived from a schema: the smallest, the boundaries of each field, random ones.
//
// Threads: any.
// Limits:  400 cases a schema.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sdk/check/schema.hpp"

namespace sluice::check {

// Nothing but what is required. The first of its boundary values each.
std::string smallest_case(const schema::Schema& schema);
// Every one is accepted by the schema; duplicates removed, the smallest first.
std::vector<std::string> valid_cases(const schema::Schema& schema, std::uint64_t seed);

}  // namespace sluice::check
