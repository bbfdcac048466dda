// JSON text cut into the texts of its members, nothing converted: what an engine wrote is handed on
// as it was written, number spellings, key order, escapes and all.
//
// Threads: any; pure functions over the caller's text, which the results borrow.
// Errors:  empty unless the whole text is exactly one object (array), to its last bracket.
// Limits:  none on depth or length: one bit a level, one pass.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::vllm::json {

struct Span {
    std::string_view name;   // without quotes, escapes as written; empty in an array
    std::string_view value;  // as written, without spaces around it
};

std::optional<std::vector<Span>> members_of(std::string_view text);
std::optional<std::vector<Span>> elements_of(std::string_view text);

// The value of the last member of that name, as a reader of the engine's language takes it; empty:
// there is none, or it is null.
std::string_view value_of(const std::vector<Span>& members, std::string_view name);
// The inside of a text value that needs no unescaping; empty for anything else.
std::string_view plain_text(std::string_view value);
std::optional<std::uint64_t> whole_number(std::string_view value);

}  // namespace sluice::vllm::json
