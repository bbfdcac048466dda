// A numeric IP address with a port: what rules name and sockets use.
//
// Threads: any; a value.
// Errors:  parse refuses names, zone identifiers, ports beyond 65535 and stray characters.
// Source:  text forms of RFC 3986 section 3.2.2 ("127.0.0.1:8000", "[::1]:80"), RFC 5952 output.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace sluice::net {

class Address {
public:
    Address() = default;  // 0.0.0.0:0

    // "127.0.0.1:8000" or "[::1]:80".
    static Result<Address> parse(std::string_view text);
    // An IP without brackets ("10.0.0.1", "::1") and a port.
    static Result<Address> parse_ip(std::string_view ip, std::uint16_t port);
    // An IPv4-mapped IPv6 address becomes the IPv4 address it stands for.
    static Address from_sockaddr(const sockaddr_storage& in) noexcept;
    // Fills `out` and returns its length.
    socklen_t to_sockaddr(sockaddr_storage& out) const noexcept;

    bool is_v6() const noexcept { return v6_; }
    std::uint16_t port() const noexcept { return port_; }
    Address with_port(std::uint16_t port) const noexcept;
    std::string ip() const;      // without brackets
    std::string format() const;  // as parse takes it

    std::size_t hash() const noexcept;
    friend bool operator==(const Address&, const Address&) = default;
    friend std::strong_ordering operator<=>(const Address&, const Address&) = default;

private:
    std::array<std::uint8_t, 16> bytes_{};  // IPv4 uses the first four
    std::uint16_t port_ = 0;
    bool v6_ = false;
};

}  // namespace sluice::net

template <>
struct std::hash<sluice::net::Address> {
    std::size_t operator()(const sluice::net::Address& a) const noexcept { return a.hash(); }
};
