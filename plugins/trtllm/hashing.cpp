#include "plugins/trtllm/hashing.hpp"

#include <openssl/evp.h>

#include <functional>
#include <string>

#include "plugins/trtllm/blake3.hpp"

namespace sluice::trtllm {

namespace {

constexpr std::uint64_t kMix = 0xBF58476D1CE4E5B9U;

std::uint64_t mix32(std::uint32_t a, std::uint64_t s) noexcept {
    a = ((a >> 16U) ^ a) * 0x045D9F3BU;
    a = ((a >> 16U) ^ a) * 0x045D9F3BU;
    a = (a >> 16U) ^ a;
    a += 0x9E3779B9U;
    return s ^ (a + (s << 6U) + (s >> 2U));
}

std::uint64_t mix64(std::uint64_t b, std::uint64_t s) noexcept {
    b = (b ^ (b >> 30U)) * kMix;
    b = (b ^ (b >> 27U)) * 0x94D049BB133111EBU;
    b ^= b >> 31U;
    return s ^ (b + 0x9E3779B9U + (s << 6U) + (s >> 2U));
}

std::uint64_t first_8_little(std::span<const std::uint8_t> bytes) noexcept {
    std::uint64_t out = 0;
    for (std::size_t i = 8; i-- > 0;) {
        out = out << 8U | bytes[i];
    }
    return out;
}

template <class N>
void put_little(std::string& to, N value) {
    for (std::size_t i = 0; i < sizeof value; ++i) {
        to += static_cast<char>(static_cast<std::uint8_t>(value >> (8U * i)));
    }
}

std::optional<Digest> sha256(std::string_view text) {
    Digest out{};
    unsigned size = 0;
    if (EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha256(), nullptr) != 1 ||
        size != out.size()) {
        return std::nullopt;
    }
    return out;
}

std::string begin_block(const Digest& parent) {
    return {reinterpret_cast<const char*>(parent.data()), parent.size()};
}

}  // namespace

std::uint64_t v1_block(std::uint64_t parent, std::span<const std::uint32_t> tokens,
                       const V1Scope& scope, std::span<const std::uint64_t> extra_ids,
                       std::span<const MmKey> mm_keys) noexcept {
    std::uint64_t s = tokens.size() ^ (parent * kMix);
    if (parent == 0 && scope.salt_id) {
        s = mix64(*scope.salt_id, s);
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        s = mix32(tokens[i], s);
        if (i < extra_ids.size()) {
            s = mix64(extra_ids[i], s);
        }
    }
    if (scope.lora_id) {
        s = mix64(*scope.lora_id, s);
    }
    for (const MmKey& key : mm_keys) {
        for (std::size_t word = 0; word < key.hash.size(); word += 4) {
            const std::uint8_t* at = key.hash.data() + word;
            s = mix32(std::uint32_t{at[0]} | std::uint32_t{at[1]} << 8U |
                          std::uint32_t{at[2]} << 16U | std::uint32_t{at[3]} << 24U,
                      s);
        }
        s = mix64(key.start_offset, s);
    }
    return s;
}

std::optional<Digest> v2_root(const V1Scope& scope) {
    std::string bytes(1, static_cast<char>((scope.lora_id ? 1 : 0) | (scope.salt_id ? 2 : 0)));
    if (scope.lora_id) {
        put_little(bytes, *scope.lora_id);
    }
    if (scope.salt_id) {
        put_little(bytes, *scope.salt_id);
    }
    return sha256(bytes);
}

std::optional<Digest> v2_block(const Digest& parent, std::span<const TokenOrDigest> tokens) {
    std::string bytes = begin_block(parent);
    for (const TokenOrDigest& token : tokens) {
        if (const auto* digest = std::get_if<Digest>(&token)) {
            bytes.append(reinterpret_cast<const char*>(digest->data()), digest->size());
        } else {
            put_little(bytes, std::get<std::uint32_t>(token));
        }
    }
    return sha256(bytes);
}

std::optional<Digest> v2_block(const Digest& parent, std::span<const std::uint32_t> tokens) {
    std::string bytes = begin_block(parent);
    for (const std::uint32_t token : tokens) {
        put_little(bytes, token);
    }
    return sha256(bytes);
}

std::uint64_t folded(const Digest& digest) noexcept {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        out = out << 8U | digest[i];
    }
    return out;
}

std::optional<SaltRule> salt_rule_named(std::string_view name) noexcept {
    return name == "blake3_8le"              ? std::optional(SaltRule::Blake3)
           : name == "sha256_8le"            ? std::optional(SaltRule::Sha256)
           : name == "libstdcxx_string_hash" ? std::optional(SaltRule::LibstdcxxHash)
                                             : std::nullopt;
}

std::optional<std::uint64_t> salt_id(SaltRule rule, std::string_view salt) {
    switch (rule) {
        case SaltRule::Blake3:
            return first_8_little(blake3(salt));
        case SaltRule::Sha256: {
            const auto digest = sha256(salt);
            return digest ? std::optional(first_8_little(*digest)) : std::nullopt;
        }
        case SaltRule::LibstdcxxHash:
            return std::hash<std::string_view>{}(salt);  // the same as of std::string
    }
    return std::nullopt;
}

}  // namespace sluice::trtllm
