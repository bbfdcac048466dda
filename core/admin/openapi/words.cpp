#include "core/admin/openapi/words.hpp"

namespace sluice::admin::openapi {

using rules::Json;

std::vector<std::string_view> split(std::string_view list, char separator) {
    std::vector<std::string_view> out;
    while (!list.empty()) {
        const std::size_t at = list.find(separator);
        out.push_back(list.substr(0, at));
        if (at == std::string_view::npos) {
            return out;
        }
        list.remove_prefix(at + 1);
        if (list.empty()) {
            out.emplace_back();
        }
    }
    return out;
}

Json::Array words(std::string_view list) {
    Json::Array out;
    for (const std::string_view word : split(list, ' ')) {
        out.emplace_back(word);
    }
    return out;
}

Json::Object reference(std::string_view name) {
    return {{"$ref", "#/components/schemas/" + std::string(name)}};
}

Json::Object parsed_schema(std::string_view json) {
    auto value = Json::parse(json);
    return value.ok() && value->object() != nullptr ? std::move(*value->object()) : Json::Object{};
}

}  // namespace sluice::admin::openapi
