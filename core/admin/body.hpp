// Reads the members of a small JSON body with the refusals that every route gives.
//
//   BodyReader body(request.body);
//   const auto on = body.boolean("enabled", true);
//   if (auto refusal = body.refusal({"enabled"})) return refusal_response(*refusal);
//
// The first thing that is wrong is kept; after it members read as their defaults.
//
// Threads: any (a value on the stack).
// Errors:  400 malformed_json, required, unknown_field; 422 wrong_type, out_of_range,
//          unknown_value.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/rules/json_value.hpp"
#include "core/rules/refusal.hpp"

namespace sluice::admin {

class BodyReader {
public:
    explicit BodyReader(std::string_view text);

    bool has(std::string_view name) const { return find(name) != nullptr; }
    bool boolean(std::string_view name, bool is_required);
    std::uint64_t number(std::string_view name, bool is_required, std::uint64_t most);
    double real(std::string_view name, bool is_required, double most);
    std::string text(std::string_view name, bool is_required, std::size_t max_bytes = 256);
    std::vector<std::string> texts(std::string_view name, bool is_required, std::size_t at_most);

    // What was wrong; a member that is not one of `known` is, too.
    std::optional<rules::Refusal> refusal(std::initializer_list<std::string_view> known);

private:
    const rules::Json* find(std::string_view name) const;
    // Null when it is absent; says so when it is required.
    const rules::Json* member(std::string_view name, bool is_required, std::string_view allowed);
    void wrong_type(std::string_view name, const rules::Json& have, std::string_view allowed);
    void out_of_range(std::string_view name, std::string allowed);
    void fail(rules::Refusal refusal);

    rules::Json json_;
    std::optional<rules::Refusal> refusal_;
};

}  // namespace sluice::admin
