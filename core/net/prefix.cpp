#include "core/net/prefix.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

namespace sluice::net {
namespace {

// In network order; IPv4 uses the first four.
std::array<std::uint8_t, 16> bytes_of(const Address& address) noexcept {
    std::array<std::uint8_t, 16> out{};
    sockaddr_storage name{};
    (void)address.to_sockaddr(name);
    if (address.is_v6()) {
        std::memcpy(out.data(), &reinterpret_cast<const sockaddr_in6&>(name).sin6_addr, 16);
    } else {
        std::memcpy(out.data(), &reinterpret_cast<const sockaddr_in&>(name).sin_addr, 4);
    }
    return out;
}

constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

bool is_mapped(const std::array<std::uint8_t, 16>& bytes) noexcept {
    return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

// IPv4-mapped addresses become IPv4: the last four bytes go to the front.
void unmap(std::array<std::uint8_t, 16>& bytes) noexcept {
    std::copy(bytes.begin() + 12, bytes.end(), bytes.begin());
    std::fill(bytes.begin() + 4, bytes.end(), std::uint8_t{0});
}

Error bad(std::string_view text, const char* why) {
    return Error{Code::Invalid, "network \"" + std::string(text) + "\": " + why};
}

}  // namespace

Result<Prefix> Prefix::parse(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) {
        return bad(text, "expected address/length");
    }
    const auto address = Address::parse_ip(text.substr(0, slash), 0);
    if (!address) {
        return address.error();
    }
    const std::string_view length = text.substr(slash + 1);
    Prefix out;
    const auto [end, error] =
        std::from_chars(length.data(), length.data() + length.size(), out.bits_);
    if (length.empty() || error != std::errc() || end != length.data() + length.size() ||
        out.bits_ > (address->is_v6() ? 128U : 32U)) {
        return bad(text, "the length must be 0..32, of IPv6 0..128");
    }
    out.is_v6_ = address->is_v6();
    out.bytes_ = bytes_of(*address);
    if (out.is_v6_ && out.bits_ >= 96 && is_mapped(out.bytes_)) {
        unmap(out.bytes_);
        out.bits_ -= 96;
        out.is_v6_ = false;
    }
    return out;
}

bool Prefix::contains(const Address& address) const noexcept {
    std::array<std::uint8_t, 16> bytes = bytes_of(address);
    bool is_v6 = address.is_v6();
    if (is_v6 && is_mapped(bytes)) {
        unmap(bytes);
        is_v6 = false;
    }
    if (is_v6 != is_v6_) {
        return false;
    }
    const std::size_t whole = bits_ / 8;
    if (std::memcmp(bytes.data(), bytes_.data(), whole) != 0) {
        return false;
    }
    const unsigned rest = bits_ % 8;
    return rest == 0 || ((bytes[whole] ^ bytes_[whole]) >> (8U - rest)) == 0;
}

}  // namespace sluice::net
