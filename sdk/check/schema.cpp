#include "sdk/check/schema.hpp"

#include <simdjson.h>

#include <array>

#include "sdk/check/schema_value.hpp"

namespace sluice::schema {

namespace dom = simdjson::dom;

std::string_view to_string(Type type) noexcept {
    constexpr std::array<std::string_view, 6> kWords{"object",  "array",  "string",
                                                     "integer", "number", "boolean"};
    return kWords[static_cast<std::size_t>(type)];
}

const Node* Node::child(std::string_view name) const noexcept {
    for (const Child& c : children) {
        if (c.name == name) {
            return c.node.get();
        }
    }
    return nullptr;
}

std::string Node::allowed() const {
    const auto range = [](const std::string& low, const std::string& high) {
        if (!low.empty() && !high.empty()) {
            return low + ".." + high;
        }
        return !low.empty() ? "at least " + low : !high.empty() ? "at most " + high : std::string();
    };
    const auto counts = [&](const std::optional<std::uint64_t>& low,
                            const std::optional<std::uint64_t>& high, const char* of) {
        const std::string r =
            range(low ? std::to_string(*low) : "", high ? std::to_string(*high) : "");
        return r.empty() ? r : r + of;
    };
    if (!enum_json.empty()) {
        std::string out;
        for (const std::string& option : enum_json) {
            out += out.empty() ? "" : ", ";
            out += type == Type::String ? option.substr(1, option.size() - 2) : option;
        }
        return out;
    }
    switch (type) {
        case Type::Integer:
        case Type::Number: {
            const std::string r = range(minimum_text, maximum_text);
            return r.empty() ? std::string(to_string(type)) : r;
        }
        case Type::String:
            if (const auto r = counts(min_length, max_length, " characters"); !r.empty()) {
                return r;
            }
            return pattern.empty() ? "text" : pattern;
        case Type::Array:
            if (const auto r = counts(min_items, max_items, " items"); !r.empty()) {
                return r;
            }
            return "list";
        case Type::Boolean:
            return "true, false";
        case Type::Object:
            break;
    }
    return {};
}

std::vector<Finding> Schema::check(std::string_view json) const {
    std::vector<Finding> findings;
    dom::parser parser;
    std::string error;
    const auto root = read_object(parser, json, error);
    if (!root) {
        findings.push_back(
            {Finding::Kind::Refused, "invalid_json", "", "configuration is " + error, ""});
        return findings;
    }
    check_value(*root_, *root, "", findings);
    return findings;
}

std::optional<std::string> Schema::complete(std::string_view json, std::string& error) const {
    dom::parser parser;
    const auto root = read_object(parser, json, error);
    if (!root) {
        return std::nullopt;
    }
    std::string out;
    write_value(root_.get(), *root, Style::Complete, out);
    return out;
}

std::optional<std::string> Schema::masked(std::string_view json, std::string& error) const {
    dom::parser parser;
    const auto root = read_object(parser, json, error);
    if (!root) {
        return std::nullopt;
    }
    std::string out;
    write_value(root_.get(), *root, Style::Masked, out);
    return out;
}

std::vector<std::string> Schema::immutable_changes(std::string_view before,
                                                   std::string_view after) const {
    std::vector<std::string> out;
    dom::parser old_parser;
    dom::parser new_parser;
    std::string error;
    const auto was = read_object(old_parser, before, error);
    const auto is = read_object(new_parser, after, error);
    if (!was || !is) {
        return out;
    }
    const auto value_of = [](const Node::Child& child, const dom::element& object) {
        std::string json;
        dom::element value;
        if (object.get_object().value_unsafe()[child.name].get(value) == simdjson::SUCCESS) {
            write_value(child.node.get(), value, Style::Canonical, json);
        } else {
            dom::parser parser;
            json = child.node->default_json;
            if (!json.empty() && parser.parse(json).get(value) == simdjson::SUCCESS) {
                json.clear();
                write_value(child.node.get(), value, Style::Canonical, json);
            }
        }
        return json;
    };
    for (const Node::Child& child : root_->children) {
        if (child.node->is_immutable && value_of(child, *was) != value_of(child, *is)) {
            out.push_back(child.name);
        }
    }
    return out;
}

}  // namespace sluice::schema
