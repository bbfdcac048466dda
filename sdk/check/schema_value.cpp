#include "sdk/check/schema_value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <set>

namespace sluice::schema {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kMaxPatternText = 4096;

class Checker {
public:
    explicit Checker(std::vector<Finding>& findings) : findings_(findings) {}

    void value(const Node& node, dom::element v, const std::string& field) {
        if (findings_.size() >= kMaxFindings) {
            return;
        }
        if (!has_type(node, v)) {
            say(node, "wrong_type", field,
                "must be " +
                    std::string(node.type == Type::Object || node.type == Type::Array ||
                                        node.type == Type::Integer
                                    ? "an "
                                    : "a ") +
                    std::string(to_string(node.type)));
            return;
        }
        if (!node.enum_json.empty() && std::find(node.enum_json.begin(), node.enum_json.end(),
                                                 to_json(v)) == node.enum_json.end()) {
            say(node, "not_allowed", field, "must be one of " + node.allowed());
        }
        switch (node.type) {
            case Type::Object:
                object(node, v.get_object(), field);
                break;
            case Type::Array:
                array(node, v.get_array(), field);
                break;
            case Type::String:
                text(node, v.get_string(), field);
                break;
            case Type::Integer:
            case Type::Number:
                number(node, v, field);
                break;
            case Type::Boolean:
                break;
        }
    }

private:
    static bool has_type(const Node& node, dom::element v) {
        switch (node.type) {
            case Type::Object:
                return v.is_object();
            case Type::Array:
                return v.is_array();
            case Type::String:
                return v.is_string();
            case Type::Integer:
                return v.is_int64() || v.is_uint64();
            case Type::Number:
                return v.is_number();
            case Type::Boolean:
                return v.is_bool();
        }
        return false;
    }

    void object(const Node& node, dom::object object, const std::string& field) {
        std::set<std::string_view> seen;
        const auto path = [&](std::string_view name) {
            return field.empty() ? std::string(name) : field + "." + std::string(name);
        };
        for (const auto member : object) {
            if (!seen.insert(member.key).second) {
                say(node, "duplicate_field", path(member.key), "is given twice");
                continue;
            }
            const Node* child = node.child(member.key);
            if (child == nullptr) {
                say(node, "unknown_field", path(member.key), "is not a field here");
                continue;
            }
            value(*child, member.value, path(member.key));
        }
        for (const auto& child : node.children) {
            if (child.node->is_required && !seen.contains(child.name)) {
                say(*child.node, "missing_field", path(child.name), "is required");
            }
        }
    }

    void array(const Node& node, dom::array array, const std::string& field) {
        std::uint64_t n = 0;
        for (const dom::element item : array) {
            if (node.items) {
                value(*node.items, item, field + "[" + std::to_string(n) + "]");
            }
            ++n;
        }
        if ((node.min_items && n < *node.min_items) || (node.max_items && n > *node.max_items)) {
            say(node, "wrong_length", field, "must have " + node.allowed());
        }
    }

    void text(const Node& node, std::string_view text, const std::string& field) {
        const auto chars =
            static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), [](char c) {
                return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
            }));
        if ((node.min_length && chars < *node.min_length) ||
            (node.max_length && chars > *node.max_length)) {
            say(node, "wrong_length", field, "must have " + node.allowed());
        } else if (node.regex) {
            // The library's matcher recurses with the text; what is longer cannot be right anyway.
            bool matches = false;
            try {
                matches = text.size() <= kMaxPatternText &&
                          std::regex_search(text.begin(), text.end(), *node.regex);
            } catch (const std::regex_error&) {
                matches = false;
            }
            if (!matches) {
                say(node, "wrong_format", field, "must match " + node.pattern);
            }
        }
    }

    void number(const Node& node, dom::element v, const std::string& field) {
        long double n = 0;
        if (v.is_int64()) {
            n = static_cast<long double>(v.get_int64().value_unsafe());
        } else if (v.is_uint64()) {
            n = static_cast<long double>(v.get_uint64().value_unsafe());
        } else {
            n = static_cast<long double>(v.get_double().value_unsafe());
        }
        if ((node.minimum && n < *node.minimum) || (node.maximum && n > *node.maximum)) {
            say(node, "out_of_range", field, "must be " + node.allowed());
        }
    }

    void say(const Node& node, const char* code, const std::string& field,
             const std::string& what) {
        if (findings_.size() < kMaxFindings) {
            findings_.push_back({Finding::Kind::Refused, code, field,
                                 (field.empty() ? "the object" : field) + " " + what,
                                 node.allowed()});
        }
    }

    std::vector<Finding>& findings_;
};

std::string default_of(const Node& node, Style style) {
    dom::parser parser;
    dom::element value;
    std::string out;
    if (style == Style::Canonical &&
        parser.parse(node.default_json).get(value) == simdjson::SUCCESS) {
        write_value(&node, value, style, out);
        return out;
    }
    return node.default_json;
}

void write_object(const Node* node, dom::object object, Style style, std::string& out) {
    struct Member {
        std::string name, json;
    };
    std::vector<Member> members;
    for (const auto member : object) {
        const Node* child = node == nullptr ? nullptr : node->child(member.key);
        Member m{std::string(member.key), {}};
        if (style == Style::Masked && child != nullptr && child->is_secret) {
            m.json = "\"***\"";
        } else {
            write_value(child, member.value, style, m.json);
        }
        members.push_back(std::move(m));
    }
    if (node != nullptr && style != Style::Masked) {
        for (const auto& child : node->children) {
            const bool is_given = std::any_of(members.begin(), members.end(), [&](const Member& m) {
                return m.name == child.name;
            });
            if (!is_given && !child.node->default_json.empty()) {
                members.push_back({child.name, default_of(*child.node, style)});
            }
        }
    }
    if (style == Style::Canonical) {
        std::sort(members.begin(), members.end(),
                  [](const Member& a, const Member& b) { return a.name < b.name; });
    }
    out += '{';
    for (const Member& m : members) {
        out += &m == members.data() ? "" : ",";
        append_quoted(out, m.name);
        out += ':';
        out += m.json;
    }
    out += '}';
}

}  // namespace

std::optional<dom::element> read_object(dom::parser& parser, std::string_view json,
                                        std::string& error) {
    if (json.size() > kMaxJson) {
        error = "longer than " + std::to_string(kMaxJson) + " bytes";
        return std::nullopt;
    }
    dom::element root;
    const auto code = parser.parse(json.data(), json.size()).get(root);
    if (code != simdjson::SUCCESS) {
        error = std::string("not JSON: ") + simdjson::error_message(code);
        return std::nullopt;
    }
    if (!root.is_object()) {
        error = "not a JSON object";
        return std::nullopt;
    }
    return root;
}

void check_value(const Node& node, dom::element value, const std::string& field,
                 std::vector<Finding>& findings) {
    Checker(findings).value(node, value, field);
}

void write_value(const Node* node, dom::element value, Style style, std::string& out) {
    if (value.is_object()) {
        write_object(node, value.get_object().value_unsafe(), style, out);
    } else if (value.is_array()) {
        out += '[';
        bool is_first = true;
        for (const dom::element item : dom::array(value.get_array().value_unsafe())) {
            out += is_first ? "" : ",";
            is_first = false;
            write_value(node == nullptr ? nullptr : node->items.get(), item, style, out);
        }
        out += ']';
    } else if (style == Style::Canonical && node != nullptr && node->type == Type::Number &&
               value.is_number()) {
        std::array<char, 64> digits{};
        const double number =
            value.is_double()
                ? value.get_double().value_unsafe()
                : (value.is_int64() ? static_cast<double>(value.get_int64().value_unsafe())
                                    : static_cast<double>(value.get_uint64().value_unsafe()));
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
        out.append(digits.data(), end.ptr);
    } else {
        out += to_json(value);
    }
}

void append_quoted(std::string& out, std::string_view text) {
    out += '"';
    for (const char c : text) {
        const auto u = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (u < 0x20) {
            std::array<char, 8> hex{};
            std::snprintf(hex.data(), hex.size(), "\\u%04x", u);
            out += hex.data();
        } else {
            out += c;
        }
    }
    out += '"';
}

std::string to_json(dom::element value) {
    if (value.is_string()) {
        std::string out;
        append_quoted(out, value.get_string().value_unsafe());
        return out;
    }
    return simdjson::minify(value);
}

}  // namespace sluice::schema
