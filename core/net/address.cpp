#include "core/net/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace sluice::net {
namespace {

Error bad(std::string_view text, const char* why) {
    return Error{Code::Invalid, "address \"" + std::string(text) + "\": " + why};
}

}  // namespace

Result<Address> Address::parse(std::string_view text) {
    std::string_view ip;
    std::string_view port_text;
    const bool bracketed = !text.empty() && text.front() == '[';
    if (bracketed) {
        const auto close = text.find(']');
        if (close == std::string_view::npos || close + 1 >= text.size() || text[close + 1] != ':') {
            return bad(text, "expected [IPv6]:port");
        }
        ip = text.substr(1, close - 1);
        port_text = text.substr(close + 2);
    } else {
        const auto colon = text.find(':');
        if (colon == std::string_view::npos ||
            text.find(':', colon + 1) != std::string_view::npos) {
            return bad(text, "expected IPv4:port or [IPv6]:port");
        }
        ip = text.substr(0, colon);
        port_text = text.substr(colon + 1);
    }
    std::uint16_t port = 0;
    const auto* end = port_text.data() + port_text.size();
    const auto [at, ec] = std::from_chars(port_text.data(), end, port);
    if (ec != std::errc{} || at != end || port_text.empty()) {
        return bad(text, "the port must be 0..65535");
    }
    auto address = parse_ip(ip, port);
    if (address.ok() && address->is_v6() != bracketed) {
        return bad(text, "brackets belong around IPv6 only");
    }
    return address;
}

Result<Address> Address::parse_ip(std::string_view ip, std::uint16_t port) {
    std::array<char, INET6_ADDRSTRLEN + 1> text{};
    if (ip.empty() || ip.size() >= text.size()) {
        return bad(ip, "not a numeric IP address");
    }
    std::copy(ip.begin(), ip.end(), text.begin());
    Address a;
    a.port_ = port;
    if (::inet_pton(AF_INET, text.data(), a.bytes_.data()) == 1) {
        return a;
    }
    if (::inet_pton(AF_INET6, text.data(), a.bytes_.data()) == 1) {
        a.v6_ = true;
        return a;
    }
    return bad(ip, "not a numeric IP address");
}

Address Address::from_sockaddr(const sockaddr_storage& in) noexcept {
    Address a;
    if (in.ss_family == AF_INET) {
        sockaddr_in v4{};
        std::memcpy(&v4, &in, sizeof v4);
        std::memcpy(a.bytes_.data(), &v4.sin_addr, 4);
        a.port_ = ntohs(v4.sin_port);
    } else if (in.ss_family == AF_INET6) {
        sockaddr_in6 v6{};
        std::memcpy(&v6, &in, sizeof v6);
        a.port_ = ntohs(v6.sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
            std::memcpy(a.bytes_.data(), v6.sin6_addr.s6_addr + 12, 4);
        } else {
            std::memcpy(a.bytes_.data(), &v6.sin6_addr, 16);
            a.v6_ = true;
        }
    }
    return a;
}

socklen_t Address::to_sockaddr(sockaddr_storage& out) const noexcept {
    out = {};
    if (v6_) {
        sockaddr_in6 v6{};
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port_);
        std::memcpy(&v6.sin6_addr, bytes_.data(), 16);
        std::memcpy(&out, &v6, sizeof v6);
        return sizeof v6;
    }
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port_);
    std::memcpy(&v4.sin_addr, bytes_.data(), 4);
    std::memcpy(&out, &v4, sizeof v4);
    return sizeof v4;
}

Address Address::with_port(std::uint16_t port) const noexcept {
    Address a = *this;
    a.port_ = port;
    return a;
}

std::string Address::ip() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(v6_ ? AF_INET6 : AF_INET, bytes_.data(), text.data(), text.size());
    return text.data();
}

std::string Address::format() const {
    return (v6_ ? "[" + ip() + "]:" : ip() + ":") + std::to_string(port_);
}

std::size_t Address::hash() const noexcept {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::memcpy(&low, bytes_.data(), 8);
    std::memcpy(&high, bytes_.data() + 8, 8);
    std::uint64_t h = low ^ (high * 0x9E3779B97F4A7C15U) ^ (std::uint64_t{port_} << 1U | v6_);
    h ^= h >> 32U;
    h *= 0xD6E8FEB86659FD93U;
    h ^= h >> 32U;
    return h;
}

}  // namespace sluice::net
