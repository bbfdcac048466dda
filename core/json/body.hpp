// A read-only view of a request body: the members of its outermost object and where they stand.
//
// The body is never copied or rebuilt; values stay the spans they were, so number spellings, key
// order and unknown members survive whatever the gateway edits around them (core/json/edits.hpp).
//
// Threads: one BodyReader a loop; what it returns is valid until its next parse and while the body
//          lives.
// Errors:  Code::Invalid for what is not one JSON object, with the reason for people.
// Limits:  kMaxFields members (Code::Limit).
// Note:    of two members with one name the last counts, as for vLLM, which decodes with Python's
//          json (seen on vLLM 0.32). Values nobody asks for are skipped by structure, not checked.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::json {

// Bytes that must be readable behind a body: the parser reads whole registers.
inline constexpr std::size_t kSlack = 64;

enum class Type : std::uint8_t { Null = 1, Bool, Number, String, Array, Object };

struct Field {
    std::string_view name;  // escapes resolved
    Type type = Type::Null;
    std::size_t at = 0;        // offset of the name's opening quote
    std::size_t value_at = 0;  // offset of the value's first byte
    std::size_t value_bytes = 0;
    std::size_t end() const noexcept { return value_at + value_bytes; }
};

// The members of one body.
class Body {
public:
    std::string_view text() const noexcept { return text_; }
    std::span<const Field> fields() const noexcept { return fields_; }
    // The last member of that name, or nullptr.
    const Field* find(std::string_view name) const noexcept;
    std::string_view value(const Field& field) const noexcept {
        return text_.substr(field.value_at, field.value_bytes);
    }

private:
    friend class BodyReader;
    std::string_view text_;
    std::vector<Field> fields_;
};

class BodyReader {
public:
    static constexpr std::size_t kMaxFields = 1024;

    BodyReader();
    ~BodyReader();
    BodyReader(const BodyReader&) = delete;
    BodyReader& operator=(const BodyReader&) = delete;

    // `text` must have kSlack readable bytes behind it.
    Result<const Body*> parse(std::string_view text);

    // The decoded text of a String value, or the value of a Bool or Number; `value` is a span that
    // parse() reported. The text is valid until the next call of either function.
    Result<std::string_view> string(std::string_view value);
    static bool is_true(std::string_view value) noexcept { return value == "true"; }
    // A list of non-negative integers below 2^32; Code::Invalid otherwise.
    Status token_ids(std::string_view value, std::vector<std::uint32_t>& out);
    // The first element of an Array value as a span with its type; Code::NotFound when empty.
    struct Element {
        Type type;
        std::string_view value;
    };
    Result<Element> first_element(std::string_view array);

private:
    struct Parsers;
    std::unique_ptr<Parsers> parsers_;
    Body body_;
};

}  // namespace sluice::json
