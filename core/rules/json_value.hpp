// A small JSON document of the control plane as an owned value, and its canonical text.
//
// For rule bodies and answers of the management interface; request bodies are viewed by core/json.
//
// Threads: any (values).
// Errors:  Invalid with the reason. Refused besides bad syntax: a member given twice, NUL in text,
//          nesting deeper than kMaxDepth.
// Limits:  parse() takes at most kMaxBytes unless told otherwise, and kMaxValues. Text that is not
//          UTF-8 is written with U+FFFD in place of the bytes that are none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::rules {

class Json {
public:
    static constexpr std::size_t kMaxBytes = 1U << 20U;
    static constexpr std::size_t kMaxDepth = 16;
    // More than a document of 2048 rules with a thousand values each; some 300 MB at worst.
    static constexpr std::size_t kMaxValues = 4'000'000;

    using Array = std::vector<Json>;
    using Object = std::map<std::string, Json, std::less<>>;  // sorted, so text is canonical

    Json() = default;  // null
    Json(bool v) : value_(v) {}
    Json(const char* v) : value_(std::string(v)) {}
    Json(std::string_view v) : value_(std::string(v)) {}
    Json(std::string v) : value_(std::move(v)) {}
    Json(double v) : value_(v) {}
    Json(Array v) : value_(std::move(v)) {}
    Json(Object v) : value_(std::move(v)) {}
    template <class N>
        requires(std::is_integral_v<N> && !std::is_same_v<N, bool>)
    Json(N v) {
        if (v < 0) {
            value_ = static_cast<std::int64_t>(v);
        } else {
            value_ = static_cast<std::uint64_t>(v);
        }
    }

    static Result<Json> parse(std::string_view text, std::size_t max_bytes = kMaxBytes,
                              std::size_t max_depth = kMaxDepth);

    bool is_null() const noexcept { return std::holds_alternative<std::nullptr_t>(value_); }
    // Null when it is of another kind.
    const bool* boolean() const noexcept { return std::get_if<bool>(&value_); }
    const std::uint64_t* unsigned_integer() const noexcept {
        return std::get_if<std::uint64_t>(&value_);
    }
    const std::int64_t* negative_integer() const noexcept {
        return std::get_if<std::int64_t>(&value_);
    }
    const double* real() const noexcept { return std::get_if<double>(&value_); }
    const std::string* text() const noexcept { return std::get_if<std::string>(&value_); }
    const Array* array() const noexcept { return std::get_if<Array>(&value_); }
    const Object* object() const noexcept { return std::get_if<Object>(&value_); }
    Array* array() noexcept { return std::get_if<Array>(&value_); }
    Object* object() noexcept { return std::get_if<Object>(&value_); }
    // "an object", "text", ...: for messages.
    std::string_view kind() const noexcept;

    // Without white space, members sorted by name, integers exact.
    std::string dump() const;
    void dump_to(std::string& out) const;

    bool operator==(const Json&) const = default;

private:
    std::variant<std::nullptr_t, bool, std::uint64_t, std::int64_t, double, std::string, Array,
                 Object>
        value_ = nullptr;
};

// `text` with quotes, escaped.
void append_quoted(std::string& out, std::string_view text);

}  // namespace sluice::rules
