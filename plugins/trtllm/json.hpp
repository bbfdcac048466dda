// Reading of the engine's JSON and of the rule's own fields.
//
// simdjson throws nothing here: every access is checked. A member that is absent, null or of
// another type reads as empty; where null and absent must differ, ask member() itself. Integers
// keep all 64 bits; one beyond them makes the whole text unreadable.
//
// Threads: none of its own; a Document owns its parser and buffer.
// Limits:  the caller bounds the text; nesting is simdjson's 1024.
#pragma once
#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::trtllm::json {

using Value = simdjson::dom::element;

class Document {
public:
    // False: not JSON. This parser must not be given an empty text.
    bool parse(std::string_view text) {
        return !text.empty() &&
               parser_.parse(text.data(), text.size()).get(root_) == simdjson::SUCCESS;
    }
    const Value& root() const noexcept { return root_; }

private:
    simdjson::dom::parser parser_;
    Value root_;
};

// Also empty where the member is null.
inline std::optional<Value> member(const Value& object, std::string_view name) {
    Value out;
    return object[name].get(out) == simdjson::SUCCESS && !out.is_null() ? std::optional(out)
                                                                        : std::nullopt;
}
template <class T>
std::optional<T> read(const std::optional<Value>& v) {
    T out{};
    return v && v->get(out) == simdjson::SUCCESS ? std::optional(out) : std::nullopt;
}
inline std::optional<std::string_view> text(const std::optional<Value>& v) {
    return read<std::string_view>(v);
}
inline std::optional<std::uint64_t> number(const std::optional<Value>& v) {
    return read<std::uint64_t>(v);
}
inline std::optional<bool> boolean(const std::optional<Value>& v) {
    return read<bool>(v);
}
inline std::optional<std::uint32_t> number32(const std::optional<Value>& v) {
    const auto wide = number(v);
    return wide && *wide <= UINT32_MAX ? std::optional(static_cast<std::uint32_t>(*wide))
                                       : std::nullopt;
}

}  // namespace sluice::trtllm::json
