#include "core/admin/origins.hpp"

#include <algorithm>
#include <charconv>

#include "core/rules/json_value.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

constexpr std::string_view kSetting = "cors";

bool is_name(std::string_view host) {
    return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    });
}

bool is_host(std::string_view host) {
    if (!host.starts_with('[')) {
        return is_name(host);
    }
    return host.ends_with(']') && host.find(':') != std::string_view::npos &&
           rules::canonical_ip(host.substr(1, host.size() - 2)).has_value();
}

}  // namespace

std::optional<std::string> canonical_origin(std::string_view text) {
    if (text.size() > kMaxOriginBytes) {
        return std::nullopt;
    }
    std::string origin(text);
    std::transform(origin.begin(), origin.end(), origin.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const std::size_t scheme = origin.starts_with("http://")    ? 7
                               : origin.starts_with("https://") ? 8
                                                                : 0;
    if (scheme == 0) {
        return std::nullopt;
    }
    std::string_view host = std::string_view(origin).substr(scheme);
    const std::size_t after = host.starts_with('[') ? host.find(']') : 0;
    const std::size_t colon = after == std::string_view::npos ? after : host.find(':', after);
    std::string port;
    if (colon != std::string_view::npos) {
        port = host.substr(colon + 1);
        host = host.substr(0, colon);
        unsigned number = 0;
        const auto [end, ec] = std::from_chars(port.data(), port.data() + port.size(), number);
        if (ec != std::errc() || end != port.data() + port.size() || number == 0 ||
            number > 65535) {
            return std::nullopt;
        }
        port = number == (scheme == 7 ? 80U : 443U) ? "" : ":" + std::to_string(number);
    }
    if (!is_host(host)) {
        return std::nullopt;
    }
    return origin.substr(0, scheme) + std::string(host) + port;
}

bool contains_origin(const std::vector<std::string>& origins, std::string_view origin) {
    return std::find(origins.begin(), origins.end(), origin) != origins.end();
}

std::vector<std::string> stored_origins(const rules::RuleBook& book) {
    std::vector<std::string> out;
    const auto stored = Json::parse(book.setting(kSetting).value_or("[]"));
    if (stored && stored->array() != nullptr) {
        for (const Json& one : *stored->array()) {
            if (one.text() != nullptr) {
                out.push_back(*one.text());
            }
        }
    }
    return out;
}

std::optional<rules::Refusal> store_origins(rules::RuleBook& book,
                                            const std::vector<std::string>& origins,
                                            const rules::Actor& actor) {
    Json::Array list;
    for (const std::string& one : origins) {
        list.emplace_back(one);
    }
    return book.set(kSetting, Json(std::move(list)).dump(), actor);
}

}  // namespace sluice::admin
