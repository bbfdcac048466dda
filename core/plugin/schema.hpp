// The schema of a plugin's fields, with the gateway's kind of errors. The rules themselves are
// shared with sluice-plugin-check: sdk/check/schema.hpp.
//
// Threads: any (immutable once parsed).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "sdk/check/schema.hpp"

namespace sluice::plugin {

using schema::Finding;

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
    const std::vector<Property>& properties() const noexcept { return *properties_; }
    const Property* property(std::string_view field) const noexcept;
    bool takes(std::string_view field) const noexcept { return property(field) != nullptr; }

    // `json` is one object. Empty = fine.
    std::vector<Finding> check(std::string_view json) const { return schema_.check(json); }
    // The same object with defaults filled in, objects inside included. Only for JSON that check()
    // let pass.
    Result<std::string> complete(std::string_view json) const;
    // Names of x-immutable fields whose value differs, defaults counted in.
    std::vector<std::string> immutable_changes(std::string_view before,
                                               std::string_view after) const {
        return schema_.immutable_changes(before, after);
    }
    // The same object with the values of x-secret fields replaced by "***"; for logs and read-back.
    Result<std::string> masked(std::string_view json) const;

private:
    explicit Schema(schema::Schema parsed);
    schema::Schema schema_;
    std::shared_ptr<const std::vector<Property>> properties_;
};

}  // namespace sluice::plugin
