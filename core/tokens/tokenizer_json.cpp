#include "core/tokens/tokenizer_json.hpp"

#include "core/tokens/tokenizer_json_parts.hpp"

namespace sluice::tokens {
namespace file {

element member(element object, std::string_view name) noexcept {
    static const simdjson::padded_string kNullText = std::string_view("null");
    static simdjson::dom::parser null_parser;
    static const element kNull = null_parser.parse(kNullText).value();
    element found;
    return object.is_object() && object[name].get(found) == simdjson::SUCCESS ? found : kNull;
}

Result<std::string_view> text_of(element object, std::string_view name) {
    std::string_view text;
    if (member(object, name).get(text) != simdjson::SUCCESS) {
        return invalid(std::string(name) + " must be a string");
    }
    return text;
}

Result<bool> flag_of(element object, std::string_view name, bool otherwise) {
    const element value = member(object, name);
    bool flag = otherwise;
    if (!value.is_null() && value.get(flag) != simdjson::SUCCESS) {
        return invalid(std::string(name) + " must be true or false");
    }
    return flag;
}

Result<TokenId> id_of(element value) {
    std::uint64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS || id >= kMaxTokenId) {
        return invalid("a token id must be a number from 0 to " + std::to_string(kMaxTokenId - 1));
    }
    return static_cast<TokenId>(id);
}

}  // namespace file

Result<TokenizerParts> read_tokenizer(std::string_view tokenizer_json,
                                      std::string_view config_json) {
    if (tokenizer_json.size() > kMaxFileBytes || config_json.size() > kMaxFileBytes) {
        return Error{Code::Limit, "file is over " + std::to_string(kMaxFileBytes) + " bytes"};
    }
    simdjson::dom::parser parser;
    file::element root;
    if (const auto error = parser.parse(tokenizer_json.data(), tokenizer_json.size()).get(root)) {
        return file::invalid(std::string("tokenizer.json: ") + simdjson::error_message(error));
    }
    if (!root.is_object() || !file::member(root, "model").is_object()) {
        return file::invalid("tokenizer.json: it has no model");
    }
    TokenizerParts parts;
    const auto read = [&](std::string_view name, auto reader, auto&... args) -> Status {
        Status status = reader(file::member(root, name), args...);
        return status ? std::move(status)
                      : Status(std::move(status).error().at(name).at("tokenizer.json"));
    };
    Status status = read("normalizer", file::read_normalizer, parts.normalizer);
    if (status) {
        status = read("pre_tokenizer", file::read_pre_tokenizer, parts.pre_tokenizer,
                      parts.model.is_byte_level);
    }
    if (status) {
        status = read("model", file::read_model, parts);
    }
    if (status) {
        status = read("added_tokens", file::read_added_tokens, parts);
    }
    if (status) {
        status = read("post_processor", file::read_post_processor, parts);
    }
    if (status && !config_json.empty()) {
        status = file::read_config(config_json, parts);
        if (!status) {
            return std::move(status).error().at("tokenizer_config.json");
        }
    }
    if (!status) {
        return std::move(status).error();
    }
    return parts;
}

}  // namespace sluice::tokens
