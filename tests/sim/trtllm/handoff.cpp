#include "tests/sim/trtllm/handoff.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "core/base/random.hpp"

namespace sluice::sim::trtllm {
namespace {

constexpr std::string_view kMagic = "TRTKV1\n";
constexpr std::size_t kFillBytes = 1536;

}  // namespace

std::string base64(std::string_view bytes) {
    std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL ends it with a zero
    const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                  reinterpret_cast<const unsigned char*>(bytes.data()),
                                  static_cast<int>(bytes.size()));
    out.resize(static_cast<std::size_t>(n));
    return out;
}

std::optional<std::string> from_base64(std::string_view text) {
    if (text.empty() || text.size() % 4 != 0) {
        return std::nullopt;
    }
    std::string out(text.size() / 4 * 3, '\0');
    const int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                  reinterpret_cast<const unsigned char*>(text.data()),
                                  static_cast<int>(text.size()));
    if (n < 0) {
        return std::nullopt;
    }
    const auto padding = static_cast<std::size_t>(
        std::count(text.end() - std::min<std::ptrdiff_t>(2, std::ssize(text)), text.end(), '='));
    out.resize(static_cast<std::size_t>(n) - padding);
    return out;
}

std::string make_state(const Peer& at, const std::string& engine_id) {
    std::string out(kMagic);
    out += at.host + ":" + std::to_string(at.port) + "\n" + engine_id + "\n";
    for (std::size_t i = 0; i < kFillBytes / sizeof(std::uint64_t); ++i) {
        const std::uint64_t r = random_u64();
        out.append(reinterpret_cast<const char*>(&r), sizeof r);
    }
    return base64(out);
}

std::optional<Peer> peer_of(std::string_view state) {
    const auto bytes = from_base64(state);
    if (!bytes || bytes->rfind(kMagic, 0) != 0) {
        return std::nullopt;
    }
    const std::string_view rest = std::string_view(*bytes).substr(kMagic.size());
    const std::string_view at = rest.substr(0, rest.find('\n'));
    const std::size_t colon = at.rfind(':');
    Peer out;
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    out.host = at.substr(0, colon);
    const auto r = std::from_chars(at.data() + colon + 1, at.data() + at.size(), out.port);
    return r.ec == std::errc() && r.ptr == at.data() + at.size() ? std::optional(out)
                                                                 : std::nullopt;
}

std::string ids_in_base64(const std::vector<TokenId>& ids) {
    std::string out;
    for (const TokenId id : ids) {
        for (unsigned shift = 0; shift < 32; shift += 8) {
            out += static_cast<char>(id >> shift & 0xFFU);
        }
    }
    return base64(out);
}

std::optional<std::vector<TokenId>> ids_from_base64(std::string_view text) {
    const auto bytes = from_base64(text);
    if (!bytes || bytes->empty() || bytes->size() % 4 != 0) {
        return std::nullopt;
    }
    std::vector<TokenId> out;
    for (std::size_t i = 0; i < bytes->size(); i += 4) {
        TokenId id = 0;
        for (unsigned b = 0; b < 4; ++b) {
            id |= static_cast<TokenId>(static_cast<unsigned char>((*bytes)[i + b])) << 8 * b;
        }
        out.push_back(id);
    }
    return out;
}

std::string packed(const BlockContent& content) {
    return {reinterpret_cast<const char*>(content.data()), content.size() * sizeof(Slot)};
}

BlockContent unpacked(std::string_view bytes) {
    BlockContent out(bytes.size() / sizeof(Slot));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(Slot));
    return out;
}

std::string signature(std::string_view key, std::string_view endpoint, std::string_view state) {
    const std::string text = "{\"ctx_info_endpoint\":" + std::string(endpoint) +
                             ",\"encoded_opaque_state\":" + std::string(state) + "}";
    std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
    unsigned int size = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size);
    std::string out = "sha256=";
    for (unsigned int i = 0; i < size; ++i) {
        constexpr std::string_view kHex = "0123456789abcdef";
        out += kHex[mac[i] >> 4U];
        out += kHex[mac[i] & 0xFU];
    }
    return out;
}

}  // namespace sluice::sim::trtllm
