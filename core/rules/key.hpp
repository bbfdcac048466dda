// Addresses, hosts and paths in the one spelling in which they are compared.
//
// Threads: any.
// Errors:  a Refusal names the field; nothing is repaired that an operator could have meant
//          otherwise.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/rules/refusal.hpp"
#include "core/rules/rule.hpp"

namespace sluice::rules {

// The shortest text of a numeric IPv4 or IPv6 address; empty when it is none.
std::optional<std::string> canonical_ip(std::string_view text);
// "fd00:1:2:3::" of "fd00:1:2:3::7": the /64 an IPv6 address is in; empty for anything else.
std::optional<std::string> ipv6_network(const std::string& text);
// "10.0.0.0/8" of "10.1.2.3/8", "10.1.2.3/32" of "10.1.2.3"; empty when it is no network.
std::optional<std::string> canonical_prefix(std::string_view text);
bool is_multicast(const std::string& canonical);
bool is_loopback(const std::string& canonical);
bool is_unspecified(const std::string& canonical);
// IPv4 before IPv6, then by value: the order in which new endpoints are numbered.
bool ip_less(const std::string& canonical_a, const std::string& canonical_b);

// A Host header's or a rule's host without its port and a final dot; brackets stay.
std::string_view host_name(std::string_view host) noexcept;

// Brings every member to its compared form: ip canonical, protocol and host in lower case, host
// without port, path without a final slash, "disabled" as "". Refuses what can match nothing.
std::optional<Refusal> normalise(RuleKey& key);

}  // namespace sluice::rules
