#include "core/rules/json_value.hpp"

#include <simdjson.h>

#include <array>
#include <charconv>

#include "core/json/writer.hpp"

namespace sluice::rules {
namespace {

namespace dom = simdjson::dom;

Result<std::string> text_of(std::string_view text) {
    if (text.find('\0') != std::string_view::npos) {
        return Error{Code::Invalid, "NUL in text"};
    }
    return std::string(text);
}

// Depth is bounded by the parser, so recursion is; `left` bounds the tree, which takes many times
// the room of a text of short values.
Result<Json> convert(const dom::element& in, std::size_t& left) {
    if (left-- == 0) {
        left = 0;
        return Error{Code::Limit, "more than " + std::to_string(Json::kMaxValues) + " values"};
    }
    switch (in.type()) {
        case dom::element_type::OBJECT: {
            Json::Object out;
            for (const auto& member : dom::object(in.get_object().value_unsafe())) {
                auto key = text_of(member.key);
                if (!key) {
                    return key.error();
                }
                auto value = convert(member.value, left);
                if (!value) {
                    return value;
                }
                if (!out.emplace(*key, std::move(*value)).second) {
                    return Error{Code::Invalid, "\"" + *key + "\" is given twice"};
                }
            }
            return Json(std::move(out));
        }
        case dom::element_type::ARRAY: {
            Json::Array out;
            for (const dom::element item : dom::array(in.get_array().value_unsafe())) {
                auto value = convert(item, left);
                if (!value) {
                    return value;
                }
                out.push_back(std::move(*value));
            }
            return Json(std::move(out));
        }
        case dom::element_type::STRING: {
            auto text = text_of(in.get_string().value_unsafe());
            if (!text) {
                return text.error();
            }
            return Json(std::move(*text));
        }
        case dom::element_type::INT64:
            return Json(in.get_int64().value_unsafe());
        case dom::element_type::UINT64:
            return Json(in.get_uint64().value_unsafe());
        case dom::element_type::DOUBLE:
            return Json(in.get_double().value_unsafe());
        case dom::element_type::BOOL:
            return Json(in.get_bool().value_unsafe());
        case dom::element_type::NULL_VALUE:
            return Json();
    }
    return Error{Code::Internal, "unknown JSON element"};
}

void append_double(std::string& out, double v) {
    std::array<char, 32> text{};
    const auto [end, ec] = std::to_chars(text.data(), text.data() + text.size(), v);
    const std::string_view digits(text.data(), static_cast<std::size_t>(end - text.data()));
    out += digits;
    if (digits.find_first_of(".en") == std::string_view::npos) {
        out += ".0";  // read back as what it was, not as an integer
    }
}

}  // namespace

Result<Json> Json::parse(std::string_view text, std::size_t max_bytes, std::size_t max_depth) {
    if (text.size() > max_bytes) {
        return Error{Code::Limit, "more than " + std::to_string(max_bytes) + " bytes of JSON"};
    }
    if (text.empty()) {
        // Before simdjson copies from where there may be nothing.
        return Error{Code::Invalid, simdjson::error_message(simdjson::EMPTY)};
    }
    dom::parser parser(max_bytes);
    if (const auto ec = parser.allocate(std::max<std::size_t>(text.size(), 64), max_depth);
        ec != simdjson::SUCCESS) {
        return Error{Code::Limit, simdjson::error_message(ec)};
    }
    dom::element root;
    if (const auto ec = parser.parse(text.data(), text.size()).get(root); ec != simdjson::SUCCESS) {
        return Error{Code::Invalid, ec == simdjson::DEPTH_ERROR
                                        ? "nested deeper than " + std::to_string(max_depth)
                                        : std::string(simdjson::error_message(ec))};
    }
    std::size_t left = kMaxValues;
    return convert(root, left);
}

std::string_view Json::kind() const noexcept {
    static constexpr std::array<std::string_view, 8> kNames = {
        "null", "a boolean", "an integer", "an integer", "a decimal number",
        "text", "a list",    "an object"};
    return kNames[value_.index()];
}

std::string Json::dump() const {
    std::string out;
    dump_to(out);
    return out;
}

void Json::dump_to(std::string& out) const {
    if (is_null()) {
        out += "null";
    } else if (const bool* b = boolean()) {
        out += *b ? "true" : "false";
    } else if (const auto* u = unsigned_integer()) {
        out += std::to_string(*u);
    } else if (const auto* i = negative_integer()) {
        out += std::to_string(*i);
    } else if (const auto* d = std::get_if<double>(&value_)) {
        append_double(out, *d);
    } else if (const auto* s = text()) {
        append_quoted(out, *s);
    } else if (const auto* a = array()) {
        out += '[';
        for (std::size_t k = 0; k < a->size(); ++k) {
            out += k == 0 ? "" : ",";
            (*a)[k].dump_to(out);
        }
        out += ']';
    } else if (const auto* o = object()) {
        out += '{';
        bool first = true;
        for (const auto& [name, value] : *o) {
            out += first ? "" : ",";
            first = false;
            append_quoted(out, name);
            out += ':';
            value.dump_to(out);
        }
        out += '}';
    }
}

void append_quoted(std::string& out, std::string_view text) {
    static constexpr std::string_view kHex = "0123456789abcdef";
    out += '"';
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte >= 0x80) {
            // Names in a query and file names need not be text; an answer is.
            const std::size_t size = json::sequence_bytes(text.substr(i));
            out += size == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(i, size);
            i += size == 0 ? 0 : size - 1;
        } else if (byte >= 0x20) {
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\t') {
            out += "\\t";
        } else {
            out += "\\u00";
            out += kHex[byte >> 4U];
            out += kHex[byte & 0xFU];
        }
    }
    out += '"';
}

}  // namespace sluice::rules
