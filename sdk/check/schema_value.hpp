// Checking and writing one JSON value against one schema node.
//
// Threads: any.
#pragma once
#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/check/schema.hpp"

namespace sluice::schema {

inline constexpr std::size_t kMaxJson = 1U << 20U;
inline constexpr std::size_t kMaxFindings = 32;

// Parses one object; empty and `error` set otherwise. The element lives in the parser.
std::optional<simdjson::dom::element> read_object(simdjson::dom::parser& parser,
                                                  std::string_view json, std::string& error);

// Appends what is wrong with `value`, at most kMaxFindings in all.
void check_value(const Node& node, simdjson::dom::element value, const std::string& field,
                 std::vector<Finding>& findings);

enum class Style {
    Complete,   // as given, defaults filled in
    Masked,     // as given, secrets hidden
    Canonical,  // defaults filled in, members sorted, numbers in one spelling: for comparison
};
// `node` may be null: the value is written as it is.
void write_value(const Node* node, simdjson::dom::element value, Style style, std::string& out);

void append_quoted(std::string& out, std::string_view text);
std::string to_json(simdjson::dom::element value);

}  // namespace sluice::schema
