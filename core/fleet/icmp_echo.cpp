#include "core/fleet/icmp_echo.hpp"

namespace sluice::fleet {
namespace {

constexpr std::size_t kHeaderBytes = 8;

char byte(unsigned value) noexcept {
    return static_cast<char>(static_cast<unsigned char>(value & 0xFFU));
}

unsigned at(std::string_view bytes, std::size_t i) noexcept {
    return static_cast<unsigned char>(bytes[i]);
}

unsigned checksum(std::string_view bytes) noexcept {
    unsigned sum = 0;
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
        sum += at(bytes, i) << 8U | (i + 1 < bytes.size() ? at(bytes, i + 1) : 0U);
    }
    while (sum > 0xFFFFU) {
        sum = (sum & 0xFFFFU) + (sum >> 16U);
    }
    return ~sum & 0xFFFFU;
}

}  // namespace

std::string echo_request(bool is_v6, std::uint16_t identifier, std::string_view payload) {
    // type, code, checksum (2), identifier (2), sequence number (2)
    std::string out(kHeaderBytes, '\0');
    out[0] = byte(is_v6 ? 128 : 8);
    out[4] = byte(identifier >> 8U);
    out[5] = byte(identifier);
    out[7] = byte(1);
    out.append(payload);
    if (!is_v6) {
        const unsigned sum = checksum(out);
        out[2] = byte(sum >> 8U);
        out[3] = byte(sum);
    }
    return out;
}

bool is_echo_reply(std::string_view bytes, bool is_v6, bool has_ip_header,
                   std::string_view payload) noexcept {
    if (has_ip_header && !is_v6) {
        // The header's length is in its first byte, in words of four.
        const std::size_t length = bytes.empty() ? 0 : (at(bytes, 0) & 0xFU) * 4;
        if (length < 20 || bytes.size() < length) {
            return false;
        }
        bytes.remove_prefix(length);
    }
    return bytes.size() >= kHeaderBytes && at(bytes, 0) == (is_v6 ? 129U : 0U) &&
           bytes.substr(kHeaderBytes) == payload;
}

}  // namespace sluice::fleet
