#include "core/json/body.hpp"

#include <simdjson.h>

namespace sluice::json {
namespace {

namespace od = simdjson::ondemand;

Error invalid(simdjson::error_code code) {
    return Error{Code::Invalid, simdjson::error_message(code)};
}

std::string_view trimmed(std::string_view token) noexcept {
    while (!token.empty() && (token.back() == ' ' || token.back() == '\t' || token.back() == '\n' ||
                              token.back() == '\r')) {
        token.remove_suffix(1);
    }
    return token;
}

Type to_type(od::json_type type) noexcept {
    switch (type) {
        case od::json_type::array:
            return Type::Array;
        case od::json_type::object:
            return Type::Object;
        case od::json_type::number:
            return Type::Number;
        case od::json_type::string:
            return Type::String;
        case od::json_type::boolean:
            return Type::Bool;
        case od::json_type::null:
            break;
    }
    return Type::Null;
}

// The whole text of a value, which is consumed; containers are skipped by structure.
simdjson::error_code span_of(od::value& value, Type type, std::string_view& out) {
    if (type == Type::Object) {
        od::object object;
        if (const auto error = value.get_object().get(object)) {
            return error;
        }
        return object.raw_json().get(out);
    }
    if (type == Type::Array) {
        od::array array;
        if (const auto error = value.get_array().get(array)) {
            return error;
        }
        return array.raw_json().get(out);
    }
    out = trimmed(value.raw_json_token());
    return simdjson::SUCCESS;
}

}  // namespace

struct BodyReader::Parsers {
    od::parser whole;  // owns the decoded names of the current body
    od::parser part;   // owns the decoded text of string()
};

BodyReader::BodyReader() : parsers_(std::make_unique<Parsers>()) {}
BodyReader::~BodyReader() = default;

const Field* Body::find(std::string_view name) const noexcept {
    for (auto it = fields_.rbegin(); it != fields_.rend(); ++it) {
        if (it->name == name) {
            return &*it;
        }
    }
    return nullptr;
}

Result<const Body*> BodyReader::parse(std::string_view text) {
    body_.text_ = text;
    body_.fields_.clear();
    od::document document;
    const simdjson::padded_string_view padded(text, text.size() + kSlack);
    if (const auto error = parsers_->whole.iterate(padded).get(document)) {
        return invalid(error);
    }
    od::object object;
    if (const auto error = document.get_object().get(object)) {
        return error == simdjson::INCORRECT_TYPE
                   ? Error{Code::Invalid, "the body must be a JSON object"}
                   : invalid(error);
    }
    for (auto member : object) {
        od::field field;
        if (const auto error = std::move(member).get(field)) {
            return invalid(error);
        }
        if (body_.fields_.size() == kMaxFields) {
            return Error{Code::Limit,
                         "the body has more than " + std::to_string(kMaxFields) + " members"};
        }
        Field out;
        out.at = static_cast<std::size_t>(field.key().raw() - text.data()) - 1;
        if (const auto error = field.unescaped_key().get(out.name)) {
            return invalid(error);
        }
        od::value value = field.value();
        od::json_type type{};
        std::string_view span;
        if (const auto error = value.type().get(type)) {
            return invalid(error);
        }
        out.type = to_type(type);
        if (const auto error = span_of(value, out.type, span)) {
            return invalid(error);
        }
        out.value_at = static_cast<std::size_t>(span.data() - text.data());
        out.value_bytes = span.size();
        body_.fields_.push_back(out);
    }
    // Out of bounds is how the parser says that nothing is left.
    if (!document.current_location().error()) {
        return Error{Code::Invalid, "there is text behind the JSON object"};
    }
    return &body_;
}

Result<std::string_view> BodyReader::string(std::string_view value) {
    od::document document;
    // The span lies inside a body, so the slack of the body is readable behind it.
    const simdjson::padded_string_view padded(value, value.size() + kSlack);
    if (const auto error = parsers_->part.iterate(padded).get(document)) {
        return invalid(error);
    }
    std::string_view text;
    if (const auto error = document.get_string().get(text)) {
        return invalid(error);
    }
    return text;
}

Status BodyReader::token_ids(std::string_view value, std::vector<std::uint32_t>& out) {
    od::document document;
    const simdjson::padded_string_view padded(value, value.size() + kSlack);
    if (const auto error = parsers_->part.iterate(padded).get(document)) {
        return invalid(error);
    }
    od::array array;
    if (const auto error = document.get_array().get(array)) {
        return invalid(error);
    }
    for (auto element : array) {
        std::uint64_t id = 0;
        if (const auto error = element.get_uint64().get(id)) {
            return invalid(error);
        }
        if (id > UINT32_MAX) {
            return Error{Code::Invalid, "a token id is above 2^32 - 1"};
        }
        out.push_back(static_cast<std::uint32_t>(id));
    }
    return {};
}

Result<BodyReader::Element> BodyReader::first_element(std::string_view array) {
    od::document document;
    const simdjson::padded_string_view padded(array, array.size() + kSlack);
    if (const auto error = parsers_->part.iterate(padded).get(document)) {
        return invalid(error);
    }
    od::array elements;
    if (const auto error = document.get_array().get(elements)) {
        return invalid(error);
    }
    for (auto element : elements) {
        od::value value;
        od::json_type type{};
        if (const auto error = std::move(element).get(value)) {
            return invalid(error);
        }
        if (const auto error = value.type().get(type)) {
            return invalid(error);
        }
        Element out{to_type(type), {}};
        if (const auto error = span_of(value, out.type, out.value)) {
            return invalid(error);
        }
        return out;
    }
    return Error{Code::NotFound, "the list is empty"};
}

}  // namespace sluice::json
