#include "core/rules/stored.hpp"

#include "core/rules/json_value.hpp"
#include "core/rules/key.hpp"

namespace sluice::rules {

state::RuleRow row_of(const Rule& rule, std::uint32_t next_ep_idx) {
    state::RuleRow row{rule.number, rule.id, rule.generation, rule.json, next_ep_idx, {}};
    for (const EndpointSpec& e : rule.endpoints) {
        row.endpoints.push_back({e.id, e.ep_idx, e.ip, e.port, e.role});
    }
    return row;
}

Refusal store_refusal(const Error& error) {
    switch (error.code) {
        case Code::Limit:
            return {507, "storage_full", "", "the change was not stored: " + error.what, {}};
        case Code::Exists:
            return {409, "id_exists", "id", "another rule has this id", {}};
        case Code::Unavailable:
            return {503, "storage_busy", "", "the change was not stored: " + error.what, {}};
        default:
            return {500, "storage_failed", "", "the change was not stored: " + error.what, {}};
    }
}

Refusal busy_refusal() {
    return store_refusal({Code::Unavailable, "the change before it is still being stored"});
}

Described described(const std::string& body) {
    Described out;
    const auto document = Json::parse(body);
    const Json::Object* top = document.ok() ? document->object() : nullptr;
    if (top == nullptr || top->find("serviceArguments") == top->end() ||
        top->find("serviceArguments")->second.object() == nullptr) {
        return out;
    }
    const Json::Object& service = *top->find("serviceArguments")->second.object();
    const auto text = [&service](const char* name) {
        const auto it = service.find(name);
        return it == service.end() || it->second.text() == nullptr ? std::string()
                                                                   : *it->second.text();
    };
    const auto number = [&service](const char* name) {
        const auto it = service.find(name);
        const auto* n = it == service.end() ? nullptr : it->second.unsigned_integer();
        return n == nullptr ? 0U : *n;
    };
    out.name = text("name");
    out.key = {text("externalIP"),
               static_cast<std::uint16_t>(number("port")),
               text("protocol"),
               static_cast<std::uint32_t>(number("block")),
               text("host"),
               text("path_prefix"),
               text("path_match_mode"),
               text("model_name")};
    (void)normalise(out.key);  // what cannot be brought to its compared form stays as written
    return out;
}

}  // namespace sluice::rules
