// ICMP and ICMPv6 echo messages as bytes.
//
// Threads: any (values).
// Errors:  none; what is not the awaited reply is not the awaited reply.
// Source:  RFC 792 (types 8 and 0), RFC 4443 (128 and 129), RFC 1071 (checksum).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::fleet {

// `payload` tells this echo from every other. ICMPv6's checksum is the kernel's to fill in.
std::string echo_request(bool is_v6, std::uint16_t identifier, std::string_view payload);

// `has_ip_header`: as a raw IPv4 socket receives. A reply whose payload is `payload`.
bool is_echo_reply(std::string_view bytes, bool is_v6, bool has_ip_header,
                   std::string_view payload) noexcept;

}  // namespace sluice::fleet
