// JSON as the simulated engines read and write it: Python's reader, with its tolerance and texts.
//
// Threads: any; values.
// Errors:  ParseError carries the message and the character position of Python's json module.
// Limits:  nesting kMaxDepth; memory is in proportion to the text.
// Source:  CPython 3.11 json.decoder; captures comp-bad-json, comp-nan-json, comp-duplicate-key.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice::sim::json {

class Value;
struct Member;
using Array = std::vector<Value>;
using Object = std::vector<Member>;  // in the order written; of equal keys the last one counts

class Value {
public:
    Value();
    Value(bool b);
    Value(std::int64_t n);
    Value(double d);
    Value(std::string s);
    Value(Array a);
    Value(Object o);
    Value(const Value&);
    Value(Value&&) noexcept;
    Value& operator=(const Value&);
    Value& operator=(Value&&) noexcept;
    ~Value();

    bool is_null() const noexcept { return state_.index() == 0; }
    const bool* boolean() const noexcept { return std::get_if<bool>(&state_); }
    const std::int64_t* integer() const noexcept { return std::get_if<std::int64_t>(&state_); }
    const double* real() const noexcept { return std::get_if<double>(&state_); }
    const std::string* text() const noexcept { return std::get_if<std::string>(&state_); }
    const Array* array() const noexcept { return std::get_if<Array>(&state_); }
    const Object* object() const noexcept { return std::get_if<Object>(&state_); }

    // The member's value; null pointer when there is none or this is no object.
    const Value* find(std::string_view key) const noexcept;
    // As find, but a member that is JSON null counts as absent.
    const Value* get(std::string_view key) const noexcept;
    // The text of a member, empty when absent or no text.
    std::string_view text_of(std::string_view key) const noexcept;
    bool flag(std::string_view key, bool otherwise) const noexcept;

private:
    std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> state_;
};

struct Member {
    std::string key;
    Value value;
};

struct ParseError {
    std::string message;
    std::size_t position = 0;  // characters, not bytes
};

inline constexpr int kMaxDepth = 900;

// Parses valid UTF-8 text. NaN, Infinity and -Infinity are numbers, as in Python.
std::variant<Value, ParseError> parse(std::string_view utf8);

// Compact is what the web framework writes, Spaced what json.dumps writes (and ASCII only).
enum class Style { Compact, Spaced };

// Writes JSON text; commas and quoting are its business, nesting is the caller's.
class Writer {
public:
    explicit Writer(Style style = Style::Compact) : style_(style) {}
    Writer& open_object();
    Writer& close_object();
    Writer& open_array();
    Writer& close_array();
    Writer& key(std::string_view name);
    Writer& null();
    Writer& value(bool b);
    Writer& value(std::int64_t n);
    Writer& value(std::uint64_t n);
    Writer& value(double d);
    Writer& value(std::string_view s);
    Writer& value(const char* s) { return value(std::string_view(s)); }
    Writer& value(const std::string& s) { return value(std::string_view(s)); }
    Writer& value(const Value& v);
    // JSON text made elsewhere.
    Writer& raw(std::string_view json);
    template <class T>
    Writer& field(std::string_view name, const T& v) {
        return key(name).value(v);
    }
    Writer& null_field(std::string_view name) { return key(name).null(); }

    std::string take() { return std::move(out_); }
    const std::string& text() const noexcept { return out_; }

private:
    void separate();
    Style style_;
    std::string out_;
    bool need_comma_ = false;
};

// repr() of a Python float.
std::string float_text(double d);

}  // namespace sluice::sim::json
