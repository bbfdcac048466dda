// Rule bodies for tests: the smallest accepted one, with members put in or taken out.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/rules/json_value.hpp"

namespace sluice::test {

using Members = std::vector<std::pair<std::string, std::string>>;

// `service` and `endpoint` hold name and JSON text; an empty text takes the member out.
inline std::string body(const Members& service = {}, const Members& endpoint = {},
                        const Members& top = {}) {
    using rules::Json;
    Json::Object service_object{
        {"externalIP", "127.0.0.1"}, {"port", 8080}, {"protocol", "tcp"}, {"mode", 4}};
    Json::Object endpoint_object{{"endpointIP", "127.0.0.2"}, {"targetPort", 8000}, {"weight", 1}};
    const auto put = [](Json::Object& into, const Members& members) {
        for (const auto& [name, text] : members) {
            if (text.empty()) {
                into.erase(name);
            } else {
                into.insert_or_assign(name, std::move(Json::parse(text).value()));
            }
        }
    };
    put(service_object, service);
    put(endpoint_object, endpoint);
    Json::Object out{{"serviceArguments", std::move(service_object)},
                     {"endpoints", Json::Array{std::move(endpoint_object)}}};
    put(out, top);
    return Json(std::move(out)).dump();
}

}  // namespace sluice::test
