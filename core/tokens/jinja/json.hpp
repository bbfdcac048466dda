// JSON in and out of template values.
//
// Threads: any; parsers are kept per thread.
// Errors:  parse: Invalid for what is not JSON, Limit for nesting and size.
// Limits:  nesting of kMaxJsonDepth.
// Source:  Python's json: loads (a repeated key keeps its first place and its last value, integers
//          of any size are exact) and dumps.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/tokens/value.hpp"

namespace sluice::tokens::jinja {

inline constexpr int kMaxJsonDepth = 256;

// The value lives in `arena` alone.
Result<Value> parse_json(Arena& arena, std::string_view text);
// Only the members of an object that `keep` names, in order; others are checked and passed over.
Result<Value> parse_json_members(Arena& arena, std::string_view text,
                                 std::span<const std::string_view> keep);

struct JsonStyle {
    bool ensure_ascii = false;
    bool sort_keys = false;
    std::optional<std::string> indent;  // one level of it; empty optional: on one line
    std::string item_separator = ", ";
    std::string key_separator = ": ";
};

enum class DumpResult { Ok, NotSerializable, TooLarge };
// On NotSerializable `culprit` is the value that cannot be written.
DumpResult dump_json(std::string& out, const Value& v, const JsonStyle& style,
                     std::size_t max_bytes, Value& culprit);
// The JSON string of `text`, quotes included.
void append_json_string(std::string& out, std::string_view text, bool ensure_ascii);

}  // namespace sluice::tokens::jinja
