// A network in CIDR notation, and whether an address lies in it.
//
// Threads: any; a value.
// Errors:  parse() refuses names, zones, lengths beyond the family's and a missing length.
// Source:  RFC 4632 ("10.0.0.0/8"), RFC 4291 section 2.3 ("fd00::/8"). An IPv4-mapped IPv6 address
//          is the IPv4 address it stands for (RFC 4291 section 2.5.5.2).
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "core/base/result.hpp"
#include "core/net/address.hpp"

namespace sluice::net {

class Prefix {
public:
    // Bits of the address beyond the length do not matter.
    static Result<Prefix> parse(std::string_view text);

    bool contains(const Address& address) const noexcept;
    unsigned bits() const noexcept { return bits_; }
    bool is_v6() const noexcept { return is_v6_; }

private:
    std::array<std::uint8_t, 16> bytes_{};
    unsigned bits_ = 0;
    bool is_v6_ = false;
};

}  // namespace sluice::net
