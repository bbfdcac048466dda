#include "core/rules/event_addresses.hpp"

#include <algorithm>
#include <charconv>

#include "core/rules/json_value.hpp"
#include "core/rules/key.hpp"

namespace sluice::rules {
namespace {

// "HOST:PORT"; empty when it is none.
std::optional<PublishAt> host_port(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view digits = text.substr(colon + 1);
    PublishAt out;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
    if (error != std::errc() || end != digits.data() + digits.size() || out.port == 0) {
        return std::nullopt;
    }
    std::string_view host = text.substr(0, colon);
    if (host == "*") {
        out.host = host;
        return out;
    }
    const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (is_bracketed) {
        host = host.substr(1, host.size() - 2);
    }
    const auto ip = canonical_ip(host);
    if (!ip || is_bracketed != (host.find(':') != std::string_view::npos)) {
        return std::nullopt;
    }
    out.host = is_bracketed ? "[" + *ip + "]" : *ip;
    return out;
}

std::string text_of(const Json::Object& object, std::string_view name) {
    const auto it = object.find(name);
    const std::string* text = it == object.end() ? nullptr : it->second.text();
    return text == nullptr ? std::string() : *text;
}

}  // namespace

std::optional<PublishAt> parse_publisher(std::string_view text) {
    constexpr std::string_view kScheme = "tcp://";
    return text.starts_with(kScheme) ? host_port(text.substr(kScheme.size())) : std::nullopt;
}

bool is_event_source(std::string_view text) {
    constexpr std::string_view kScheme = "http://";
    const bool is_clean = std::all_of(text.begin(), text.end(), [](char c) {
        return c > ' ' && c < 0x7F &&
               std::string_view("?#@%\"\\").find(c) == std::string_view::npos;
    });
    if (!is_clean || !text.starts_with(kScheme)) {
        return false;
    }
    const std::string_view rest = text.substr(kScheme.size());
    const auto at = host_port(rest.substr(0, rest.find('/')));
    return at && at->host != "*";
}

EventAddresses event_addresses(const Rule& rule) {
    EventAddresses out;
    const auto effective = Json::parse(rule.effective);
    if (rule.kv.exact_mode == 0 || !effective.ok() || effective->object() == nullptr) {
        return out;
    }
    out.republish = parse_publisher(text_of(*effective->object(), "kvRepublish"));
    out.events_from = text_of(*effective->object(), "kvEventsFrom");
    while (out.events_from.ends_with('/')) {
        out.events_from.pop_back();
    }
    return out;
}

}  // namespace sluice::rules
