#include "sdk/check/cases.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "sdk/check/schema_value.hpp"

namespace sluice::check {
namespace {

using schema::Node;
using schema::Type;

constexpr std::size_t kMaxCases = 400;
constexpr std::size_t kRandomCases = 60;
constexpr std::uint64_t kLongText = 300;

std::vector<std::string> values(const Node& node);

std::string in_quotes(const std::string& text) {
    std::string out;
    schema::append_quoted(out, text);
    return out;
}

// Texts the pattern may like, of a wanted length; what it refuses is filtered out later.
std::vector<std::string> texts(const Node& node) {
    const std::uint64_t low = node.min_length.value_or(0);
    const std::uint64_t high = std::min(node.max_length.value_or(kLongText), kLongText);
    std::vector<std::string> out;
    for (const std::uint64_t n : {low, low + 1, high}) {
        for (const char* unit : {"a", "0", "/", "A"}) {
            std::string text;
            while (text.size() < n) {
                text += unit;
            }
            out.push_back(in_quotes(text));
        }
    }
    for (const char* text : {"sha256", "127.0.0.1", "tcp://127.0.0.1:5557", "/nonexistent/file",
                             "quote\"back\\slash", "\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80"}) {
        out.push_back(in_quotes(text));
    }
    return out;
}

std::vector<std::string> numbers(const Node& node) {
    std::vector<std::string> out;
    const bool is_integer = node.type == Type::Integer;
    for (const std::string& bound : {node.minimum_text, node.maximum_text}) {
        if (!bound.empty()) {
            out.push_back(bound);
        }
    }
    for (const char* common : {"0", "1", "2", "16", "64", "1000", "65535"}) {
        out.emplace_back(common);
    }
    if (is_integer) {
        out.insert(out.end(), {"-1", "9223372036854775807", "18446744073709551615"});
    } else {
        out.insert(out.end(), {"0.5", "-0.25", "1e9"});
    }
    return out;
}

std::string object_of(const Node& node, std::size_t which) {
    std::string out = "{";
    for (const auto& child : node.children) {
        const auto all = values(*child.node);
        if (all.empty() || (which == 0 && !child.node->is_required)) {
            continue;
        }
        out += out.size() > 1 ? "," : "";
        out += in_quotes(child.name) + ":" + all[which % all.size()];
    }
    return out + "}";
}

std::vector<std::string> arrays(const Node& node) {
    const std::uint64_t low = node.min_items.value_or(0);
    const std::uint64_t high = std::min<std::uint64_t>(node.max_items.value_or(8), 64);
    const auto items = node.items ? values(*node.items) : std::vector<std::string>{"1", "\"x\""};
    std::vector<std::string> out;
    for (const std::uint64_t n : {low, low + 1, high}) {
        std::string text = "[";
        for (std::uint64_t i = 0; i < n && !items.empty(); ++i) {
            text += (i > 0 ? "," : "") + items[i % items.size()];
        }
        out.push_back(text + "]");
    }
    return out;
}

// Values the node itself accepts, boundaries first.
std::vector<std::string> values(const Node& node) {
    std::vector<std::string> all;
    if (!node.enum_json.empty()) {
        all = node.enum_json;
    } else {
        switch (node.type) {
            case Type::Object:
                all = {object_of(node, 0), object_of(node, 1), object_of(node, 2)};
                break;
            case Type::Array:
                all = arrays(node);
                break;
            case Type::String:
                all = texts(node);
                break;
            case Type::Integer:
            case Type::Number:
                all = numbers(node);
                break;
            case Type::Boolean:
                all = {"false", "true"};
                break;
        }
    }
    if (!node.default_json.empty()) {
        all.push_back(node.default_json);
    }
    std::vector<std::string> out;
    std::set<std::string> seen;
    for (std::string& value : all) {
        simdjson::dom::parser parser;
        simdjson::dom::element element;
        std::vector<schema::Finding> findings;
        if (parser.parse(value).get(element) != simdjson::SUCCESS) {
            continue;
        }
        schema::check_value(node, element, "", findings);
        if (findings.empty() && seen.insert(value).second) {
            out.push_back(std::move(value));
        }
    }
    return out;
}

}  // namespace

std::string smallest_case(const schema::Schema& schema) {
    return object_of(schema.root(), 0);
}

std::vector<std::string> valid_cases(const schema::Schema& schema, std::uint64_t seed) {
    const Node& root = schema.root();
    std::vector<std::string> out;
    std::set<std::string> seen;
    const auto add = [&](std::string json) {
        if (out.size() < kMaxCases && schema.check(json).empty() && seen.insert(json).second) {
            out.push_back(std::move(json));
        }
    };
    add(smallest_case(schema));
    std::vector<std::vector<std::string>> all;
    for (const auto& child : root.children) {
        all.push_back(values(*child.node));
    }
    // Each boundary of each field beside what is required.
    for (std::size_t f = 0; f < root.children.size(); ++f) {
        for (const std::string& value : all[f]) {
            std::string json = "{";
            for (std::size_t g = 0; g < root.children.size(); ++g) {
                const bool is_needed = root.children[g].node->is_required && !all[g].empty();
                if (g != f && !is_needed) {
                    continue;
                }
                json += (json.size() > 1 ? "," : "") + in_quotes(root.children[g].name) + ":" +
                        (g == f ? value : all[g].front());
            }
            add(json + "}");
        }
    }
    std::mt19937_64 random(seed);
    for (std::size_t n = 0; n < kRandomCases; ++n) {
        std::string json = "{";
        for (std::size_t g = 0; g < root.children.size(); ++g) {
            if (all[g].empty() || (!root.children[g].node->is_required && (random() & 1U) == 0)) {
                continue;
            }
            json += (json.size() > 1 ? "," : "") + in_quotes(root.children[g].name) + ":" +
                    all[g][random() % all[g].size()];
        }
        add(json + "}");
    }
    return out;
}

}  // namespace sluice::check
