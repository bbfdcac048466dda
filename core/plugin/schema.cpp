#include "core/plugin/schema.hpp"

#include <algorithm>

namespace sluice::plugin {

bool is_refused(const std::vector<Finding>& findings) noexcept {
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& f) { return f.kind != Finding::Kind::Warning; });
}

Result<Schema> Schema::parse(std::string_view text) {
    std::string error;
    auto parsed = schema::Schema::parse(text, error);
    if (!parsed) {
        return Error{Code::Invalid, error};
    }
    return Schema(std::move(*parsed));
}

Schema::Schema(schema::Schema parsed) : schema_(std::move(parsed)) {
    auto properties = std::make_shared<std::vector<Property>>();
    for (const auto& child : schema_.root().children) {
        const schema::Node& node = *child.node;
        properties->push_back({child.name, std::string(schema::to_string(node.type)), node.title,
                               node.description, node.unit, node.default_json, node.allowed(),
                               node.is_required, node.is_secret, node.is_immutable});
    }
    properties_ = std::move(properties);
}

const Property* Schema::property(std::string_view field) const noexcept {
    const auto it = std::find_if(properties_->begin(), properties_->end(),
                                 [&](const Property& p) { return p.name == field; });
    return it == properties_->end() ? nullptr : &*it;
}

Result<std::string> Schema::complete(std::string_view json) const {
    std::string error;
    auto out = schema_.complete(json, error);
    if (!out) {
        return Error{Code::Invalid, "configuration is " + error};
    }
    return std::move(*out);
}

Result<std::string> Schema::masked(std::string_view json) const {
    std::string error;
    auto out = schema_.masked(json, error);
    if (!out) {
        return Error{Code::Invalid, "configuration is " + error};
    }
    return std::move(*out);
}

}  // namespace sluice::plugin
