// Checks of a request body's fields in the words of pydantic, which every engine's server uses.
//
// Threads: any; pure functions.
// Source:  captures comp-*, chat-* of vLLM; pydantic 2 error types.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/support/json.hpp"

namespace sluice::sim {

enum class Kind { Integer, Number, Boolean, Text, TextOrList, List, Object, Any };

struct Field {
    std::string_view name;
    Kind kind = Kind::Any;
    bool is_nullable = true;
    bool is_required = false;
};

struct FieldComplaint {
    std::string type;  // int_parsing, missing, extra_forbidden
    std::string name;
    std::string message;
    const json::Value* input = nullptr;  // the whole body when the field is missing
};

// In the order of `fields`.
std::vector<FieldComplaint> complaints(const json::Value& body, const std::vector<Field>& fields);
// Members of `body` that no field names.
std::vector<FieldComplaint> unknown_fields(const json::Value& body,
                                           const std::vector<Field>& fields);

}  // namespace sluice::sim
