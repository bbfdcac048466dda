#include <utility>

#include "tests/sim/support/json.hpp"

namespace sluice::sim::json {

Value::Value() = default;
Value::Value(bool b) : state_(b) {}
Value::Value(std::int64_t n) : state_(n) {}
Value::Value(double d) : state_(d) {}
Value::Value(std::string s) : state_(std::move(s)) {}
Value::Value(Array a) : state_(std::move(a)) {}
Value::Value(Object o) : state_(std::move(o)) {}
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

const Value* Value::find(std::string_view key) const noexcept {
    const Object* members = object();
    if (members == nullptr) {
        return nullptr;
    }
    for (auto it = members->rbegin(); it != members->rend(); ++it) {
        if (it->key == key) {
            return &it->value;
        }
    }
    return nullptr;
}

const Value* Value::get(std::string_view key) const noexcept {
    const Value* v = find(key);
    return v == nullptr || v->is_null() ? nullptr : v;
}

std::string_view Value::text_of(std::string_view key) const noexcept {
    const Value* v = find(key);
    const std::string* s = v == nullptr ? nullptr : v->text();
    return s == nullptr ? std::string_view() : std::string_view(*s);
}

bool Value::flag(std::string_view key, bool otherwise) const noexcept {
    const Value* v = find(key);
    const bool* b = v == nullptr ? nullptr : v->boolean();
    return b == nullptr ? otherwise : *b;
}

}  // namespace sluice::sim::json
