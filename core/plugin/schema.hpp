// The restricted JSON Schema in which a plugin names the rule fields it takes.
//
// Threads: any (immutable once parsed).
// Errors:  parse() says what is outside the subset; check() lists findings in the operator's words.
//          Values of x-secret fields appear in no finding.
// Source:  JSON Schema draft 2020-12, only: type properties required additionalProperties(false)
//          enum minimum maximum minLength maxLength pattern items minItems maxItems default title
//          description x-unit x-secret x-immutable.
// Limits:  64 KiB of schema text, 12 levels, 512 properties in all; 32 findings a check; 1 MiB of
//          JSON to check; text longer than 4 KiB never meets a pattern.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::plugin {

// Something to tell the operator about a proposed configuration.
struct Finding {
    enum class Kind { Warning, Refused, Immutable };  // accepted | 400 | 409
    Kind kind = Kind::Refused;
    std::string code;     // stable snake_case
    std::string field;    // as the operator spells it: "breaker.failures"
    std::string message;  // for people
    std::string allowed;  // "0..65535", "off, hard"; may be empty
};

bool is_refused(const std::vector<Finding>& findings) noexcept;

// One field at the top level of the object a schema describes.
struct Property {
    std::string name, type, title, description, unit;
    std::string default_json;  // empty = none
    std::string allowed;       // as in Finding
    bool is_required = false;
    bool is_secret = false;
    bool is_immutable = false;
};

class Schema {
public:
    static Result<Schema> parse(std::string_view text);

    // In the order of the text.
    const std::vector<Property>& properties() const noexcept;
    bool takes(std::string_view field) const noexcept;

    // `json` is one object. Empty = fine.
    std::vector<Finding> check(std::string_view json) const;
    // The same object with defaults filled in, objects inside included. Only for JSON that check()
    // let pass.
    Result<std::string> complete(std::string_view json) const;
    // Names of x-immutable fields whose value differs between two objects that check() let pass.
    Result<std::vector<std::string>> immutable_changes(std::string_view before,
                                                       std::string_view after) const;
    // The same object with the values of x-secret fields replaced by "***"; for logs and read-back.
    Result<std::string> masked(std::string_view json) const;

    struct Node;

private:
    explicit Schema(std::shared_ptr<const Node> root, std::vector<Property> properties);
    std::shared_ptr<const Node> root_;
    std::shared_ptr<const std::vector<Property>> properties_;
};

}  // namespace sluice::plugin
