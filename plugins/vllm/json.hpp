// Parsing of the small JSON documents an engine answers, and of the rule's own fields.
//
// simdjson throws nothing here: every access is checked, a missing or odd member reads as empty.
// Integers keep all 64 bits.
//
// Threads: none of its own; a Document owns its parser and buffer.
// Limits:  the caller bounds the text; nesting is simdjson's 1024.
#pragma once
#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::vllm::json {

using Value = simdjson::dom::element;

class Document {
public:
    // False: not JSON.
    bool parse(std::string_view text) {
        const simdjson::padded_string padded(text);
        return parser_.parse(padded).get(root_) == simdjson::SUCCESS;
    }
    const Value& root() const noexcept { return root_; }

private:
    simdjson::dom::parser parser_;
    Value root_;
};

inline std::optional<Value> member(const Value& object, std::string_view name) {
    Value out;
    return object[name].get(out) == simdjson::SUCCESS ? std::optional(out) : std::nullopt;
}
inline std::optional<std::string_view> text(const std::optional<Value>& v) {
    std::string_view out;
    return v && v->get(out) == simdjson::SUCCESS ? std::optional(out) : std::nullopt;
}
inline std::optional<std::uint64_t> number(const std::optional<Value>& v) {
    std::uint64_t out = 0;
    return v && v->get(out) == simdjson::SUCCESS ? std::optional(out) : std::nullopt;
}
inline std::optional<bool> boolean(const std::optional<Value>& v) {
    bool out = false;
    return v && v->get(out) == simdjson::SUCCESS ? std::optional(out) : std::nullopt;
}
inline std::optional<std::string> owned(const std::optional<std::string_view>& s) {
    return s ? std::optional(std::string(*s)) : std::nullopt;
}

}  // namespace sluice::vllm::json
