#include "tests/sim/trtllm/hash.hpp"

#include <openssl/sha.h>

#include <functional>

namespace sluice::sim::trtllm {
namespace {

std::uint64_t mix32(std::uint32_t a, std::uint64_t s) noexcept {
    a = ((a >> 16U) ^ a) * 0x045D9F3BU;
    a = ((a >> 16U) ^ a) * 0x045D9F3BU;
    a = (a >> 16U) ^ a;
    a += 0x9E3779B9U;
    return s ^ (a + (s << 6U) + (s >> 2U));
}

std::uint64_t mix64(std::uint64_t b, std::uint64_t s) noexcept {
    b = (b ^ (b >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    b = (b ^ (b >> 27U)) * 0x94D049BB133111EBULL;
    b ^= b >> 31U;
    return s ^ (b + 0x9E3779B9ULL + (s << 6U) + (s >> 2U));
}

std::uint64_t mix_key(const MmKey& key, std::uint64_t s) noexcept {
    for (std::size_t i = 0; i < key.hash.size(); i += 4) {
        const std::uint32_t word = key.hash[i] | std::uint32_t{key.hash[i + 1]} << 8U |
                                   std::uint32_t{key.hash[i + 2]} << 16U |
                                   std::uint32_t{key.hash[i + 3]} << 24U;
        s = mix32(word, s);
    }
    return mix64(key.start_offset, s);
}

void append_le(std::string& out, std::uint64_t n, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
        out.push_back(static_cast<char>(n >> (8 * i)));
    }
}

std::string_view raw(const Digest& d) noexcept {
    return {reinterpret_cast<const char*>(d.data()), d.size()};
}

}  // namespace

std::uint64_t v1_hash(std::uint64_t parent, std::span<const Element> tokens, const Scope& scope,
                      std::span<const std::uint64_t> extra_ids, std::span<const MmKey> mm_keys) {
    std::uint64_t s = tokens.size() ^ (parent * 0xBF58476D1CE4E5B9ULL);
    if (parent == 0 && scope.salt_id) {
        s = mix64(*scope.salt_id, s);
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        s = mix32(std::get<TokenId>(tokens[i]), s);
        if (!extra_ids.empty()) {
            s = mix64(extra_ids[i], s);
        }
    }
    if (scope.lora_task_id) {
        s = mix64(*scope.lora_task_id, s);
    }
    for (const MmKey& key : mm_keys) {
        s = mix_key(key, s);
    }
    return s;
}

Digest sha256(std::string_view bytes) {
    Digest out{};
    ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out.data());
    return out;
}

Digest v2_root(const Scope& scope) {
    std::string bytes(
        1, static_cast<char>((scope.lora_task_id ? 1U : 0U) | (scope.salt_id ? 2U : 0U)));
    if (scope.lora_task_id) {
        append_le(bytes, *scope.lora_task_id, 8);
    }
    if (scope.salt_id) {
        append_le(bytes, *scope.salt_id, 8);
    }
    return sha256(bytes);
}

Digest v2_hash(const Digest& previous, std::span<const Element> tokens) {
    std::string bytes(raw(previous));
    for (const Element& e : tokens) {
        if (const auto* token = std::get_if<TokenId>(&e)) {
            append_le(bytes, *token, 4);
        } else {
            bytes += raw(std::get<Digest>(e));
        }
    }
    return sha256(bytes);
}

std::uint64_t high_64(const Digest& d) noexcept {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        out = out << 8U | d[i];
    }
    return out;
}

std::string hex(const Digest& d) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out;
    for (const std::uint8_t b : d) {
        out.push_back(kDigits[b >> 4U]);
        out.push_back(kDigits[b & 15U]);
    }
    return out;
}

std::uint64_t salt_id(std::string_view salt, SaltDerivation how) {
    if (how == SaltDerivation::LibraryHash) {
        return std::hash<std::string>()(std::string(salt));
    }
    const Digest d = sha256(salt);
    std::uint64_t out = 0;
    for (std::size_t i = 8; i-- > 0;) {
        out = out << 8U | d[i];
    }
    return out;
}

}  // namespace sluice::sim::trtllm
