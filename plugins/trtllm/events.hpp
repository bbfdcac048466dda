// Decodes the reply of one POST /kv_cache_events, in the form of any era.
//
// A drain cannot be repeated: a reply that is not as documented is lost as a whole, and nothing of
// it may be applied. Fields nobody knows are passed over, an event of an unknown kind keeps its
// number, an empty object in the list has none.
//
// Threads: none of its own.
// Errors:  decode() is false and `fault` says why.
// Units:   hashes are 64 bits: an integer as sent (its signed spelling, too), 64 hex digits give
//          their first eight bytes read big-endian and keep the whole digest beside.
// Source:  trtllm-serve 0.21 to 1.3, the serializers of its KV events;
//          tests/vectors/trtllm_kv_events.jsonl.
// Limits:  memory is bounded by the body's length, about tenfold; the caller bounds that.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::trtllm {

using Digest = std::array<std::uint8_t, 32>;
// Of 64 lower-case hex digits; anything else is none.
std::optional<Digest> digest_of(std::string_view hex) noexcept;

enum class HashAlgo { V1BlockKey, V2Sha256, V2Sha256Short, Other };
// How an event or /server_info spells it.
HashAlgo algo_named(std::string_view name) noexcept;
std::string_view name_of(HashAlgo algo) noexcept;

// Where a block's hash depends on more than its tokens and what is before them. Bits.
enum Trait : std::uint32_t {
    kSalted = 1U << 0U,
    kExtraId = 1U << 1U,
    kMultimodal = 1U << 2U,
    kDigestToken = 1U << 3U,  // a content digest in place of a token id
    kLora = 1U << 4U
};

struct Block {
    std::size_t first_token = 0;  // its place in the event's `tokens`
    std::uint32_t num_tokens = 0;
    std::uint32_t level = 0;  // cache level: 0 GPU, 1 host, 2 disk
    std::uint32_t priority = 0;
    std::uint32_t traits = 0;  // Trait; the salt itself is not kept
};

struct Change {
    std::uint64_t from = 0, to = 0;
};

struct Event {
    enum class Kind { Created, Stored, Removed, Updated, Unknown } kind = Kind::Unknown;
    std::uint64_t id = 0;
    std::uint32_t rank = 0;
    std::optional<std::uint64_t> window;  // tokens; before 0.21 not said
    std::optional<std::uint32_t> group;   // layer group
    HashAlgo algo = HashAlgo::V1BlockKey;
    std::string algo_text;  // as sent; empty = not said
    std::string type;       // as sent, for an unknown kind

    std::vector<std::uint64_t> levels;  // Created: blocks a cache level

    std::vector<std::uint64_t> hashes;  // Stored, Removed; Updated: one
    std::vector<Digest> digests;        // one a hash where the engine sends digests, else empty
    std::optional<std::uint64_t> parent;
    std::optional<Digest> parent_digest;
    std::vector<Block> blocks;          // Stored: one a hash
    std::vector<std::uint32_t> tokens;  // of all blocks; a digest stands as 0

    std::optional<Change> level, priority;  // Updated
};

struct Drained {
    std::vector<Event> events;     // in the reply's order
    std::size_t placeholders = 0;  // empty objects
    std::string_view fault;        // static text
};

bool decode(std::string_view body, Drained& out);

}  // namespace sluice::trtllm
