#include "core/rules/key.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>

namespace sluice::rules {
namespace {

// 4 or 16 bytes in network order; 0 = not an address.
std::size_t to_bytes(const std::string& text, std::array<unsigned char, 16>& out) {
    out = {};
    if (inet_pton(AF_INET, text.c_str(), out.data()) == 1) {
        return 4;
    }
    return inet_pton(AF_INET6, text.c_str(), out.data()) == 1 ? 16 : 0;
}

void to_lower(std::string& text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
}

bool is_host_text(std::string_view host) {
    return std::all_of(host.begin(), host.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || c == ':' || c == '[' ||
               c == ']';
    });
}

std::optional<Refusal> normalise_host(RuleKey& key) {
    if (key.host.empty()) {
        return std::nullopt;
    }
    const std::string given = key.host;
    if (std::count(given.begin(), given.end(), ':') > 1 && given.front() != '[') {
        const auto ip = canonical_ip(given);
        if (!ip) {
            return Refusal{
                400, "malformed_host", "host", "host is neither a name nor an address", {}};
        }
        key.host = "[" + *ip + "]";
    } else {
        key.host = std::string(host_name(given));
    }
    to_lower(key.host);
    if (key.host.empty() || !is_host_text(key.host) || key.host == "any") {
        return Refusal{400, "malformed_host", "host",
                       "host must be a host name or an address without wildcards; leave it out to "
                       "take every host",
                       "a name, an address, or absent"};
    }
    return std::nullopt;
}

std::optional<Refusal> normalise_path(RuleKey& key) {
    if (key.path_mode == "disabled") {
        key.path_mode.clear();
    }
    if (key.path_prefix.empty() != key.path_mode.empty()) {
        return key.path_prefix.empty()
                   ? Refusal{400,
                             "path_prefix_required",
                             "path_prefix",
                             "path_match_mode " + key.path_mode + " needs a path_prefix",
                             {}}
                   : Refusal{400, "path_match_mode_required", "path_match_mode",
                             "path_prefix is given but path_match_mode does not use it",
                             "prefix or exact"};
    }
    if (key.path_prefix.empty()) {
        return std::nullopt;
    }
    const bool is_clean =
        std::all_of(key.path_prefix.begin(), key.path_prefix.end(),
                    [](unsigned char c) { return c > 0x20 && c != 0x7F && c != '?' && c != '#'; });
    if (key.path_prefix.front() != '/' || !is_clean) {
        return Refusal{400,
                       "malformed_path",
                       "path_prefix",
                       "path_prefix must start with / and hold neither white space, ? nor #",
                       {}};
    }
    while (key.path_mode == "prefix" && key.path_prefix.size() > 1 &&
           key.path_prefix.back() == '/') {
        key.path_prefix.pop_back();
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> canonical_ip(std::string_view text) {
    std::array<unsigned char, 16> bytes{};
    const std::size_t size = to_bytes(std::string(text), bytes);
    if (size == 0 || text.find('\0') != std::string_view::npos) {
        return std::nullopt;
    }
    std::array<char, INET6_ADDRSTRLEN> out{};
    inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes.data(), out.data(), out.size());
    return std::string(out.data());
}

std::optional<std::string> ipv6_network(const std::string& text) {
    std::array<unsigned char, 16> bytes{};
    if (to_bytes(text, bytes) != 16) {
        return std::nullopt;
    }
    std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
    std::array<char, INET6_ADDRSTRLEN> out{};
    inet_ntop(AF_INET6, bytes.data(), out.data(), out.size());
    return std::string(out.data());
}

std::optional<std::string> canonical_prefix(std::string_view text) {
    const std::size_t slash = text.find('/');
    const std::string address(text.substr(0, slash));
    std::array<unsigned char, 16> bytes{};
    const std::size_t size = to_bytes(address, bytes);
    if (size == 0 || address.find('\0') != std::string::npos) {
        return std::nullopt;
    }
    std::size_t bits = size * 8;
    if (slash != std::string_view::npos) {
        const std::string_view length = text.substr(slash + 1);
        const auto [end, ec] = std::from_chars(length.data(), length.data() + length.size(), bits);
        if (ec != std::errc() || end != length.data() + length.size() || bits > size * 8) {
            return std::nullopt;
        }
    }
    for (std::size_t i = 0; i < size; ++i) {
        const std::size_t kept = bits > i * 8 ? std::min<std::size_t>(bits - i * 8, 8) : 0;
        bytes[i] = static_cast<unsigned char>(bytes[i] & (0xFF00U >> kept));
    }
    std::array<char, INET6_ADDRSTRLEN> out{};
    inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes.data(), out.data(), out.size());
    return std::string(out.data()) + "/" + std::to_string(bits);
}

bool is_multicast(const std::string& canonical) {
    std::array<unsigned char, 16> bytes{};
    return to_bytes(canonical, bytes) == 4 ? bytes[0] >= 0xE0 : bytes[0] == 0xFF;
}

bool is_loopback(const std::string& canonical) {
    std::array<unsigned char, 16> bytes{};
    return to_bytes(canonical, bytes) == 4 ? bytes[0] == 127 : canonical == "::1";
}

bool is_unspecified(const std::string& canonical) {
    std::array<unsigned char, 16> bytes{};
    to_bytes(canonical, bytes);
    return std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == 0; });
}

bool ip_less(const std::string& canonical_a, const std::string& canonical_b) {
    std::array<unsigned char, 16> a{};
    std::array<unsigned char, 16> b{};
    const std::size_t size_a = to_bytes(canonical_a, a);
    const std::size_t size_b = to_bytes(canonical_b, b);
    return size_a != size_b ? size_a < size_b : a < b;
}

std::string_view host_name(std::string_view host) noexcept {
    if (!host.empty() && host.front() == '[') {
        const std::size_t close = host.find(']');
        return close == std::string_view::npos ? host : host.substr(0, close + 1);
    }
    host = host.substr(0, host.find(':'));
    if (host.size() > 1 && host.back() == '.') {
        host.remove_suffix(1);
    }
    return host;
}

std::optional<Refusal> normalise(RuleKey& key) {
    const auto ip = canonical_ip(key.ip);
    if (!ip || is_multicast(*ip)) {
        return Refusal{400, "malformed_service", "externalIP",
                       "externalIP must be a numeric IPv4 or IPv6 unicast address",
                       "a numeric address"};
    }
    key.ip = *ip;
    to_lower(key.protocol);
    if (auto refusal = normalise_host(key)) {
        return refusal;
    }
    return normalise_path(key);
}

}  // namespace sluice::rules
