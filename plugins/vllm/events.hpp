// Decodes one batch of vLLM KV-cache events, in the array form, the map form, or both mixed.
//
// Threads: none of its own.
// Errors:  decode() is false on anything malformed; nothing of such a batch may be applied. An
//          event of an unknown kind is left out and counted, the others stand.
// Units:   hashes folded to 64 bits: an integer keeps its bit pattern, bytes give their last eight
//          read big-endian.
// Source:  vLLM 0.9.0 to 0.32.0 event structs; tests/vectors/vllm_kv_events.jsonl.
// Limits:  kMaxPayloadBytes, kMaxEvents, kMaxKeys, kMaxKeyDepth; beyond one the batch is malformed.
//          The rest is bounded by the payload's own length (see msgpack.hpp).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::vllm {

// One extra key of a block: an adapter's name, a salt, an image (identifier, offset), a digest.
struct ExtraKey {
    enum class Kind { Nil, Text, Integer, Bytes, Tuple };
    Kind kind = Kind::Nil;
    std::string text;          // Text, Bytes
    std::int64_t integer = 0;  // Integer
    std::vector<ExtraKey> items;

    bool operator==(const ExtraKey&) const = default;
};
using BlockKeys = std::vector<ExtraKey>;

enum class EventKind { Stored, Removed, Cleared };

struct Event {
    EventKind kind = EventKind::Stored;
    std::vector<std::uint64_t> hashes;
    std::optional<std::uint64_t> parent;
    std::vector<std::uint32_t> tokens;
    std::uint32_t block_size = 0;
    std::optional<std::int64_t> lora_id;
    std::optional<std::string> medium, lora_name, spec_kind, locality;
    std::optional<std::uint32_t> group;
    bool has_extra_keys = false;        // the field was there and not nil
    std::vector<BlockKeys> extra_keys;  // empty: nil for every hash; else one per entry of the list

    bool product_holds() const noexcept {
        return block_size != 0 && !tokens.empty() &&
               tokens.size() == hashes.size() * std::size_t{block_size};
    }
};

struct Batch {
    double engine_time_s = 0;
    std::optional<std::int64_t> rank;
    std::vector<Event> events;
    std::uint32_t skipped = 0;  // events of an unknown kind
};

inline constexpr int kMaxKeyDepth = 4;
inline constexpr std::size_t kMaxPayloadBytes = 16U << 20U;
inline constexpr std::size_t kMaxEvents = 1U << 16U;  // of one batch; the gateway takes no more
inline constexpr std::size_t kMaxKeys = 1U << 18U;    // extra keys of one batch, nested ones too

// `out` is overwritten; after false its content is unspecified.
bool decode(std::span<const std::uint8_t> payload, Batch& out);

// The 64-bit form of a hash sent as bytes; empty for no bytes.
std::optional<std::uint64_t> fold_digest(std::span<const std::uint8_t> digest) noexcept;

}  // namespace sluice::vllm
