#include "tests/sim/trtllm/block_key.hpp"

#include <algorithm>

namespace sluice::sim::trtllm {

std::string_view to_string(HashAlgorithm a) noexcept {
    switch (a) {
        case HashAlgorithm::V2Sha256:
            return "v2_sha256";
        case HashAlgorithm::V2Sha256Short:
            return "v2_sha256_64";
        case HashAlgorithm::V1BlockKey:
            break;
    }
    return "v1_block_key";
}

BlockKey Keyer::root(const Scope& scope) const {
    BlockKey out;
    if (manager_ == Manager::V2) {
        out.digest = v2_root(scope);
    }
    return out;
}

BlockKey Keyer::next(const BlockKey& parent, std::span<const Element> tokens, const Scope& scope,
                     std::span<const MmKey> mm_keys) const {
    BlockKey out;
    out.has_content =
        parent.has_content || std::any_of(tokens.begin(), tokens.end(), [](const Element& e) {
            return std::holds_alternative<Digest>(e);
        });
    if (manager_ == Manager::V2) {
        out.digest = v2_hash(parent.digest, tokens);
    }
    if (!out.has_content) {
        out.v1 = v1_hash(parent.v1, tokens, scope, {}, mm_keys);
    }
    return out;
}

std::string Keyer::wire(const BlockKey& key) const {
    if (algorithm_ == HashAlgorithm::V2Sha256) {
        return '"' + hex(key.digest) + '"';
    }
    const bool is_short = algorithm_ == HashAlgorithm::V2Sha256Short || key.has_content;
    return std::to_string(is_short ? high_64(key.digest) : key.v1);
}

std::string Keyer::identity(const BlockKey& key) const {
    if (manager_ == Manager::V2) {
        return {reinterpret_cast<const char*>(key.digest.data()), key.digest.size()};
    }
    return {reinterpret_cast<const char*>(&key.v1), sizeof key.v1};
}

}  // namespace sluice::sim::trtllm
