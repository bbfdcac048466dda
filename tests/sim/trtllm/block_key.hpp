// The identity of a block in a cache of one manager and one hash algorithm.
//
// Threads: any; values.
// Source:  contract sections 3.1, 3.3 and 3.4.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/sim/trtllm/hash.hpp"

namespace sluice::sim::trtllm {

enum class Manager { V1, V2 };
enum class HashAlgorithm { V1BlockKey, V2Sha256, V2Sha256Short };
std::string_view to_string(HashAlgorithm a) noexcept;

// One block's place in a chain: what the hash of the next one starts from.
struct BlockKey {
    std::uint64_t v1 = 0;
    Digest digest{};
    bool has_content = false;  // a content digest stands in this block or before it
};

class Keyer {
public:
    Keyer(Manager manager, HashAlgorithm algorithm) : manager_(manager), algorithm_(algorithm) {}

    BlockKey root(const Scope& scope) const;
    BlockKey next(const BlockKey& parent, std::span<const Element> tokens, const Scope& scope,
                  std::span<const MmKey> mm_keys) const;
    // As it stands in an event: a decimal number, or hex digits in quotes.
    std::string wire(const BlockKey& key) const;
    // Bytes that are equal exactly for equal blocks.
    std::string identity(const BlockKey& key) const;

private:
    Manager manager_;
    HashAlgorithm algorithm_;
};

}  // namespace sluice::sim::trtllm
