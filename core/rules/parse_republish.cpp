// Where KV events are published again, and where they are taken from instead of the engines.
#include "core/rules/event_addresses.hpp"
#include "core/rules/key.hpp"
#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

bool is_open(const std::string& host) {
    const bool is_bracketed = host.front() == '[';
    return host == "*" ||
           !is_loopback(is_bracketed ? host.substr(1, host.size() - 2) : std::string(host));
}

std::optional<Refusal> check_republish(const Effective& in, Draft& out) {
    const std::string text = in.text("kvRepublish");
    if (text.empty()) {
        return std::nullopt;
    }
    const auto at = parse_publisher(text);
    if (!at) {
        return Refusal{400, "malformed_address", "kvRepublish",
                       "kvRepublish must be an address to publish at, a numeric one or *",
                       "tcp://IP:PORT, tcp://[IPV6]:PORT or tcp://*:PORT"};
    }
    if (is_open(at->host)) {
        out.warnings.push_back({"kv_republish_open", "kvRepublish",
                                "whoever reaches " + at->host +
                                    " can read the token ids and cache salts of every prompt: keep "
                                    "it to a network of gateways"});
    }
    return std::nullopt;
}

std::optional<Refusal> check_source(const Effective& in, Draft& out) {
    const std::string url = in.text("kvEventsFrom");
    if (url.empty()) {
        return std::nullopt;
    }
    if (!is_event_source(url)) {
        return Refusal{
            400, "malformed_address", "kvEventsFrom",
            "kvEventsFrom must be the base URL of another gateway's management interface, "
            "with a numeric address and without TLS",
            "http://IP:PORT or http://[IPV6]:PORT"};
    }
    for (const char* name : {"kvZmqPort", "kvReplayPort", "kvDiscovery"}) {
        if (in.was_given(name)) {
            out.warnings.push_back({"no_effect", name,
                                    "kept, but without effect while kvEventsFrom says where the "
                                    "events come from"});
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<Refusal> check_event_addresses(const Effective& in, Draft& out) {
    if (auto refusal = check_republish(in, out)) {
        return refusal;
    }
    return check_source(in, out);
}

}  // namespace sluice::rules
