// The restricted JSON Schema in which a plugin names the fields it takes: one implementation for
// the gateway and for sluice-plugin-check, so that the two cannot disagree.
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
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::schema {

// Something to tell the operator about a proposed configuration.
struct Finding {
    enum class Kind { Warning, Refused, Immutable };  // accepted | 400 | 409
    Kind kind = Kind::Refused;
    std::string code;     // stable snake_case
    std::string field;    // as the operator spells it: "breaker.failures"
    std::string text;     // for people
    std::string allowed;  // "0..65535", "off, hard"; may be empty
};

enum class Type { Object, Array, String, Integer, Number, Boolean };
std::string_view to_string(Type type) noexcept;

// One schema object. Read by the checker to derive configurations from it.
struct Node {
    struct Child;
    Type type = Type::Object;
    std::string title, description, unit;
    std::string default_json;  // complete; empty = none
    bool is_required = false, is_secret = false, is_immutable = false;
    std::vector<std::string> enum_json;  // minified
    // long double holds every 64-bit integer exactly where it has a 64-bit mantissa or more.
    std::optional<long double> minimum, maximum;
    std::string minimum_text, maximum_text;
    std::optional<std::uint64_t> min_length, max_length, min_items, max_items;
    std::string pattern;
    std::optional<std::regex> regex;
    std::vector<Child> children;  // of an object, in the order of the text
    std::unique_ptr<Node> items;  // of an array; null = anything

    const Node* child(std::string_view name) const noexcept;
    std::string allowed() const;  // for people
};
struct Node::Child {
    std::string name;
    std::unique_ptr<Node> node;
};

class Schema {
public:
    // The outermost type is object. Empty and `error` set when it is not within the subset.
    static std::optional<Schema> parse(std::string_view text, std::string& error);

    const Node& root() const noexcept { return *root_; }

    // `json` is one object. Empty = fine.
    std::vector<Finding> check(std::string_view json) const;
    // The same object with defaults filled in. Only for JSON that check() let pass; empty and
    // `error` set otherwise.
    std::optional<std::string> complete(std::string_view json, std::string& error) const;
    // The same object with the values of x-secret fields replaced by "***".
    std::optional<std::string> masked(std::string_view json, std::string& error) const;
    // Names of x-immutable fields that differ, defaults counted in.
    std::vector<std::string> immutable_changes(std::string_view before,
                                               std::string_view after) const;

private:
    explicit Schema(std::shared_ptr<const Node> root) : root_(std::move(root)) {}
    std::shared_ptr<const Node> root_;
};

}  // namespace sluice::schema
