#include "plugins/vllm/hashing.hpp"

#include <openssl/evp.h>
#include <xxhash.h>

#include <array>

#include "plugins/vllm/encode.hpp"

namespace sluice::vllm {

namespace {

constexpr std::array<std::pair<std::string_view, Algorithm>, 5> kNames{
    {{"sha256_cbor", Algorithm::Sha256Cbor},
     {"xxhash_cbor", Algorithm::XxhashCbor},
     {"sha256", Algorithm::Sha256},
     {"xxhash", Algorithm::Xxhash},
     {"sha256_cbor_64bit", Algorithm::Sha256Cbor64}}};

bool is_pickled(Algorithm a) noexcept {
    return a == Algorithm::Sha256 || a == Algorithm::Xxhash;
}
bool is_xxhash(Algorithm a) noexcept {
    return a == Algorithm::Xxhash || a == Algorithm::XxhashCbor;
}

std::optional<Digest> hash(Algorithm algorithm, std::string_view preimage) {
    if (is_xxhash(algorithm)) {
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical, XXH3_128bits(preimage.data(), preimage.size()));
        return Digest{{reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest}};
    }
    std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
    unsigned size = 0;
    if (EVP_Digest(preimage.data(), preimage.size(), out.data(), &size, EVP_sha256(), nullptr) !=
        1) {
        return std::nullopt;
    }
    Digest digest{{reinterpret_cast<const char*>(out.data()), size}};
    if (algorithm == Algorithm::Sha256Cbor64) {
        digest.bytes.erase(0, digest.bytes.size() - 8);
    }
    return digest;
}

void put(Cbor& to, const ExtraKey& key) {
    switch (key.kind) {
        case ExtraKey::Kind::Nil:
            return to.nil();
        case ExtraKey::Kind::Text:
            return to.text(key.text);
        case ExtraKey::Kind::Bytes:
            return to.bytes(key.text);
        case ExtraKey::Kind::Integer:
            return to.integer(key.integer);
        case ExtraKey::Kind::Tuple:
            to.array(key.items.size());
            for (const ExtraKey& item : key.items) {
                put(to, item);
            }
    }
}

void put(Pickle& to, const ExtraKey& key, bool is_tag = false) {
    switch (key.kind) {
        case ExtraKey::Kind::Nil:
            return to.nil();
        case ExtraKey::Kind::Text:
            return to.text(key.text, is_tag);
        case ExtraKey::Kind::Bytes:
            return to.bytes(key.text);
        case ExtraKey::Kind::Integer:
            return to.integer(key.integer);
        case ExtraKey::Kind::Tuple:
            to.open_tuple(key.items.size());
            for (std::size_t i = 0; i < key.items.size(); ++i) {
                // A tagged key begins with a literal of the engine's source, one object throughout.
                const std::string& text = key.items[i].text;
                put(to, key.items[i],
                    i == 0 && (text == "mm" || text == "lora" || text == "cache_salt" ||
                               text == "prompt_embeds"));
            }
            to.close_tuple(key.items.size());
    }
}

template <class Token>
std::string cbor_block(const HashRule& rule, const Digest& parent, std::span<const Token> tokens,
                       const BlockKeys& keys) {
    Cbor out;
    out.array(3);
    if (rule.integer_parent) {
        out.unsigned_integer(parent.folded());
    } else {
        out.bytes(parent.bytes);
    }
    out.array(tokens.size());
    for (Token token : tokens) {
        out.unsigned_integer(token);
    }
    if (keys.empty()) {
        out.nil();
    } else {
        out.array(keys.size());
        for (const ExtraKey& key : keys) {
            put(out, key);
        }
    }
    return out.take();
}

template <class Token>
std::optional<std::string> pickle_block(const HashRule& rule, const Digest& parent,
                                        std::span<const Token> tokens, const BlockKeys& keys) {
    Pickle out;
    if (rule.integer_parent) {
        out.big_integer(parent.bytes);
    } else {
        out.bytes(parent.bytes);
    }
    out.open_tuple(tokens.size());
    for (Token token : tokens) {
        out.unsigned_integer(token);
    }
    out.close_tuple(tokens.size());
    if (keys.empty()) {
        out.nil();
    } else {
        out.open_tuple(keys.size());
        for (const ExtraKey& key : keys) {
            put(out, key);
        }
        out.close_tuple(keys.size());
    }
    out.close_tuple(3);
    return out.finish();
}

template <class Token>
std::vector<Digest> chain(const HashRule& rule, const Digest& parent, std::span<const Token> tokens,
                          std::uint32_t block_tokens, std::span<const BlockKeys> keys) {
    static const BlockKeys kNone;
    std::vector<Digest> out;
    if (block_tokens == 0) {
        return out;
    }
    Digest last = parent;
    for (std::size_t i = 0; (i + 1) * block_tokens <= tokens.size(); ++i) {
        const auto block = tokens.subspan(i * block_tokens, block_tokens);
        const BlockKeys& extra = i < keys.size() ? keys[i] : kNone;
        std::optional<Digest> digest;
        if (!is_pickled(rule.algorithm)) {
            digest = hash(rule.algorithm, cbor_block(rule, last, block, extra));
        } else if (const auto preimage = pickle_block(rule, last, block, extra)) {
            digest = hash(rule.algorithm, *preimage);
        }
        if (!digest) {
            return {};
        }
        out.push_back(*digest);
        last = std::move(*digest);
    }
    return out;
}

ExtraKey text_key(std::string_view text) {
    ExtraKey key;
    key.kind = ExtraKey::Kind::Text;
    key.text = text;
    return key;
}

ExtraKey tagged(std::initializer_list<std::string_view> parts) {
    ExtraKey key;
    key.kind = ExtraKey::Kind::Tuple;
    for (std::string_view part : parts) {
        key.items.push_back(text_key(part));
    }
    return key;
}

}  // namespace

std::optional<Algorithm> algorithm_named(std::string_view name) noexcept {
    for (const auto& [known, algorithm] : kNames) {
        if (known == name) {
            return algorithm;
        }
    }
    return std::nullopt;
}

std::string_view name_of(Algorithm algorithm) noexcept {
    for (const auto& [name, known] : kNames) {
        if (known == algorithm) {
            return name;
        }
    }
    return "unknown";
}

std::uint64_t Digest::folded() const noexcept {
    return fold_digest({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()})
        .value_or(0);
}

std::optional<Digest> none_hash(const HashRule& rule, const std::optional<std::string>& seed) {
    if (!seed && is_xxhash(rule.algorithm)) {
        return std::nullopt;
    }
    const std::string_view text = seed ? std::string_view(*seed) : kUnsetSeed;
    if (is_pickled(rule.algorithm)) {
        Pickle out;
        out.text(text);
        const auto preimage = out.finish();
        return preimage ? hash(rule.algorithm, *preimage) : std::nullopt;
    }
    Cbor out;
    out.text(text);
    return hash(rule.algorithm, out.take());
}

std::vector<Digest> hash_chain(const HashRule& rule, const Digest& parent,
                               std::span<const std::uint32_t> tokens, std::uint32_t block_tokens,
                               std::span<const BlockKeys> keys) {
    return chain(rule, parent, tokens, block_tokens, keys);
}

std::vector<Digest> hash_chain(const HashRule& rule, const Digest& parent,
                               std::span<const std::uint64_t> tokens, std::uint32_t block_tokens,
                               std::span<const BlockKeys> keys) {
    return chain(rule, parent, tokens, block_tokens, keys);
}

std::vector<BlockKeys> text_keys(KeyForm form, const Identity& who, std::size_t blocks) {
    std::vector<BlockKeys> out;
    if (who.lora.empty() && who.salt.empty()) {
        return out;
    }
    out.resize(blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
        if (!who.lora.empty()) {
            out[i].push_back(form == KeyForm::Bare ? text_key(who.lora)
                                                   : tagged({"lora", who.lora, who.lora_path}));
        }
        if (!who.salt.empty() && i == 0) {
            out[i].push_back(form == KeyForm::Bare ? text_key(who.salt)
                                                   : tagged({"cache_salt", who.salt}));
        }
    }
    return out;
}

}  // namespace sluice::vllm
