// Small pieces of message shaping: fields of the request's objects, texts, developer messages.
//
// Threads: any.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/tokens/value.hpp"

namespace sluice::tokens {

// nullptr if `object` is no object or lacks the field.
inline const Value* field(const Value& object, std::string_view name) {
    return object.is_dict() ? find(*object.dict, name) : nullptr;
}
// A field that is there and not null.
inline const Value* set_field(const Value& object, std::string_view name) {
    const Value* v = field(object, name);
    return v != nullptr && !v->is_none() ? v : nullptr;
}
inline Error invalid(std::string what) {
    return Error{Code::Invalid, std::move(what)};
}

// chat_merge.cpp. The texts with `between` between them; one alone is not copied.
Value join_texts(Arena& arena, const std::vector<std::string_view>& texts,
                 std::string_view between);
bool has_role(const Value& message, std::string_view role);
// Turns developer messages into system messages and brings those to one, at the front.
ListData* without_developer(Arena& arena, const ListData* in);

}  // namespace sluice::tokens
