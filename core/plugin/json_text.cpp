#include "core/plugin/json_text.hpp"

#include <simdjson.h>

#include "core/json/writer.hpp"

namespace sluice::plugin {

// simdjson copies even from an empty text that lies nowhere, so that is never asked.
bool is_json_value(std::string_view json) {
    if (json.empty()) {
        return false;
    }
    simdjson::dom::parser parser;
    simdjson::dom::element value;
    return parser.parse(json.data(), json.size()).get(value) == simdjson::SUCCESS;
}

bool has_member(std::string_view object, std::string_view name) {
    if (object.empty()) {
        return false;
    }
    simdjson::dom::parser parser;
    simdjson::dom::object members;
    simdjson::dom::element value;
    return parser.parse(object.data(), object.size()).get(members) == simdjson::SUCCESS &&
           members[name].get(value) == simdjson::SUCCESS;
}

std::string with_member(std::string_view object, std::string_view name, std::string_view json) {
    constexpr std::string_view kBlank = " \t\r\n";
    const std::size_t brace = object.rfind('}');
    std::string out(object.substr(0, brace));
    out.erase(out.find_last_not_of(kBlank) + 1);
    if (out.back() != '{') {
        out += ',';
    }
    json::append_string(out, name);
    out += ':';
    out += json;
    out += '}';
    return out;
}

}  // namespace sluice::plugin
