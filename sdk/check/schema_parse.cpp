#include <simdjson.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include "sdk/check/schema.hpp"
#include "sdk/check/schema_value.hpp"

namespace sluice::schema {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kMaxText = 64U << 10U;
constexpr unsigned kMaxDepth = 12;
constexpr std::size_t kMaxProperties = 512;
constexpr std::size_t kMaxEnum = 256;

// Ends here when the text is outside the subset; caught by Schema::parse.
struct Refused {
    std::string what;
};

class Reader {
public:
    std::unique_ptr<Node> node(dom::element value, const std::string& path, unsigned depth) {
        if (depth > kMaxDepth) {
            fail(path, "is nested deeper than " + std::to_string(kMaxDepth) + " levels");
        }
        if (!value.is_object()) {
            fail(path, "must be an object");
        }
        const dom::object object = value.get_object();
        auto node = std::make_unique<Node>();
        dom::element type;
        if (object["type"].get(type) != simdjson::SUCCESS || !type.is_string()) {
            fail(path, "needs a \"type\" that is one word");
        }
        node->type = this->type(type.get_string(), path);

        std::set<std::string_view> seen;
        std::optional<dom::element> default_value;
        std::vector<std::string> required;
        bool is_closed = false;
        for (const auto member : object) {
            if (!seen.insert(member.key).second) {
                fail(path, "says \"" + std::string(member.key) + "\" twice");
            }
            if (member.key == "default") {
                default_value = member.value;
            } else if (member.key == "required") {
                required = texts(member.value, path);
            } else if (member.key == "additionalProperties") {
                if (!member.value.is_bool() || member.value.get_bool().value_unsafe()) {
                    fail(path, "may only say \"additionalProperties\": false");
                }
                is_closed = true;
            } else {
                keyword(*node, member.key, member.value, path, depth);
            }
        }
        finish(*node, required, is_closed, path);
        if (default_value) {
            std::vector<Finding> findings;
            check_value(*node, *default_value, "default", findings);
            if (!findings.empty()) {
                fail(path, findings.front().text);
            }
            write_value(node.get(), *default_value, Style::Complete, node->default_json);
        }
        return node;
    }

private:
    [[noreturn]] static void fail(const std::string& path, const std::string& what) {
        throw Refused{(path.empty() ? "the schema" : path) + " " + what};
    }

    static Type type(std::string_view word, const std::string& path) {
        for (const Type t : {Type::Object, Type::Array, Type::String, Type::Integer, Type::Number,
                             Type::Boolean}) {
            if (word == to_string(t)) {
                return t;
            }
        }
        fail(path, "has the unknown type \"" + std::string(word) + "\"");
    }

    static std::string text(dom::element value, std::string_view key, const std::string& path) {
        if (!value.is_string()) {
            fail(path, "must have a text as \"" + std::string(key) + "\"");
        }
        return std::string(value.get_string().value_unsafe());
    }
    static bool boolean(dom::element value, std::string_view key, const std::string& path) {
        if (!value.is_bool()) {
            fail(path, "must have true or false as \"" + std::string(key) + "\"");
        }
        return value.get_bool().value_unsafe();
    }
    static std::uint64_t count(dom::element value, std::string_view key, const std::string& path) {
        if (!value.is_uint64()) {
            fail(path, "must have a count as \"" + std::string(key) + "\"");
        }
        return value.get_uint64().value_unsafe();
    }
    static long double number(dom::element value, std::string_view key, const std::string& path) {
        if (value.is_int64()) {
            return static_cast<long double>(value.get_int64().value_unsafe());
        }
        if (value.is_uint64()) {
            return static_cast<long double>(value.get_uint64().value_unsafe());
        }
        if (value.is_double()) {
            return static_cast<long double>(value.get_double().value_unsafe());
        }
        fail(path, "must have a number as \"" + std::string(key) + "\"");
    }
    static std::vector<std::string> texts(dom::element value, const std::string& path) {
        std::vector<std::string> out;
        if (!value.is_array()) {
            fail(path, "must have a list of names as \"required\"");
        }
        for (const dom::element item : dom::array(value.get_array().value_unsafe())) {
            out.push_back(text(item, "required", path));
        }
        return out;
    }

    void keyword(Node& node, std::string_view key, dom::element value, const std::string& path,
                 unsigned depth) {
        if (key == "type") {
            return;
        } else if (key == "title") {
            node.title = text(value, key, path);
        } else if (key == "description") {
            node.description = text(value, key, path);
        } else if (key == "x-unit") {
            node.unit = text(value, key, path);
        } else if (key == "x-secret") {
            node.is_secret = boolean(value, key, path);
        } else if (key == "x-immutable") {
            node.is_immutable = boolean(value, key, path);
        } else if (key == "enum") {
            for_type(node, {Type::String, Type::Integer, Type::Number, Type::Boolean}, key, path);
            options(node, value, path);
        } else if (key == "minimum" || key == "maximum") {
            for_type(node, {Type::Integer, Type::Number}, key, path);
            (key == "minimum" ? node.minimum : node.maximum) = number(value, key, path);
            (key == "minimum" ? node.minimum_text : node.maximum_text) = to_json(value);
        } else if (key == "minLength" || key == "maxLength") {
            for_type(node, {Type::String}, key, path);
            (key == "minLength" ? node.min_length : node.max_length) = count(value, key, path);
        } else if (key == "minItems" || key == "maxItems") {
            for_type(node, {Type::Array}, key, path);
            (key == "minItems" ? node.min_items : node.max_items) = count(value, key, path);
        } else if (key == "pattern") {
            for_type(node, {Type::String}, key, path);
            node.pattern = text(value, key, path);
            try {
                node.regex.emplace(node.pattern, std::regex::ECMAScript | std::regex::optimize);
            } catch (const std::regex_error&) {
                fail(path, "has a pattern that is no regular expression");
            }
        } else if (key == "items") {
            for_type(node, {Type::Array}, key, path);
            node.items = this->node(value, path + "[]", depth + 1);
        } else if (key == "properties") {
            for_type(node, {Type::Object}, key, path);
            properties(node, value, path, depth);
        } else {
            fail(path, "uses \"" + std::string(key) + "\", which is outside the subset");
        }
    }

    static void for_type(const Node& node, std::initializer_list<Type> types, std::string_view key,
                         const std::string& path) {
        if (std::find(types.begin(), types.end(), node.type) == types.end()) {
            fail(path, "says \"" + std::string(key) + "\", which means nothing for type " +
                           std::string(to_string(node.type)));
        }
    }

    static void options(Node& node, dom::element value, const std::string& path) {
        if (!value.is_array()) {
            fail(path, "must have a list as \"enum\"");
        }
        for (const dom::element item : dom::array(value.get_array().value_unsafe())) {
            if (item.is_object() || item.is_array() || node.enum_json.size() >= kMaxEnum) {
                fail(path, "has an \"enum\" of other things than a few plain values");
            }
            node.enum_json.push_back(to_json(item));
        }
        if (node.enum_json.empty()) {
            fail(path, "has an empty \"enum\"");
        }
    }

    void properties(Node& node, dom::element value, const std::string& path, unsigned depth) {
        if (!value.is_object()) {
            fail(path, "must have an object as \"properties\"");
        }
        for (const auto member : dom::object(value.get_object().value_unsafe())) {
            const std::string name(member.key);
            if (name.empty() || node.child(name) != nullptr) {
                fail(path, "has an empty or repeated property name");
            }
            if (++num_properties_ > kMaxProperties) {
                fail(path, "has more than " + std::to_string(kMaxProperties) + " properties");
            }
            auto child =
                this->node(member.value, path.empty() ? name : path + "." + name, depth + 1);
            node.children.push_back({name, std::move(child)});
        }
    }

    static void finish(Node& node, const std::vector<std::string>& required, bool is_closed,
                       const std::string& path) {
        if (node.type == Type::Object && !is_closed) {
            fail(path, "must say \"additionalProperties\": false");
        }
        if (node.type != Type::Object && (is_closed || !required.empty())) {
            fail(path, "says what only an object may");
        }
        for (const std::string& name : required) {
            const auto child = std::find_if(node.children.begin(), node.children.end(),
                                            [&](const auto& c) { return c.name == name; });
            if (child == node.children.end()) {
                fail(path, "requires \"" + name + "\", which is not among its properties");
            }
            child->node->is_required = true;
        }
        if ((node.minimum && node.maximum && *node.minimum > *node.maximum) ||
            (node.min_length && node.max_length && *node.min_length > *node.max_length) ||
            (node.min_items && node.max_items && *node.min_items > *node.max_items)) {
            fail(path, "has a lower bound above its upper one");
        }
    }

    std::size_t num_properties_ = 0;
};

}  // namespace

std::optional<Schema> Schema::parse(std::string_view text, std::string& error) {
    if (text.size() > kMaxText) {
        error = "the schema is longer than " + std::to_string(kMaxText) + " bytes";
        return std::nullopt;
    }
    try {
        dom::parser parser;
        const auto root = read_object(parser, text, error);
        if (!root) {
            error.insert(0, "the schema is ");
            return std::nullopt;
        }
        auto node = Reader().node(*root, "", 0);
        if (node->type != Type::Object) {
            error = "the schema must be of type object";
            return std::nullopt;
        }
        return Schema(std::shared_ptr<const Node>(std::move(node)));
    } catch (const Refused& refused) {
        error = refused.what;
        return std::nullopt;
    }
}

}  // namespace sluice::schema
