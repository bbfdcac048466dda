// vLLM's events in the host's terms: media to tiers, groups that serve a prefix look-up, which
// adapter and salt root a chain, which blocks no request can be matched with.
//
// Threads: none of its own; one instance per (endpoint, rank), event thread.
// Errors:  none. What cannot serve a look-up is left out and counted.
// Source:  vLLM event fields by version (events.hpp); extra keys come in the order LoRA,
// multimodal,
//          salt, prompt embeddings, and the salt only in the block that starts a prompt.
// Limits:  kMaxGroups groups are remembered per rank.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "plugins/vllm/events.hpp"
#include "sluice/sdk.hpp"

namespace sluice::vllm {

// What a stored event's extra keys say.
struct Reading {
    std::string lora, salt;
    std::vector<std::uint8_t> opaque;  // empty: none; else one per hash
    bool is_plain() const noexcept { return opaque.empty(); }
};
Reading read_keys(const Event& event);

// 0: a medium this adapter does not know.
std::uint32_t tier_of(const Event& event) noexcept;
bool serves_lookup(std::string_view spec_kind) noexcept;

// A batch ready for the host. The events point into `batch` and into this object.
struct Translated {
    struct Stored {
        std::size_t at;  // its place in `events`
        const Event* event;
    };
    std::vector<sluice_kv_event> events;
    std::vector<Stored>
        roots;  // GPU, whole blocks, from a prompt's start: what attestation can use
    std::deque<Reading> readings;
    std::uint64_t not_lookup = 0, unknown_medium = 0, partial = 0;
    bool cleared = false;
};

class Translator {
public:
    static constexpr std::size_t kMaxGroups = 64;

    Translated translate(const Batch& batch);
    void forget() { *this = Translator{}; }
    // Tokens of a whole block as published; 0 = nothing seen yet.
    std::uint32_t block_tokens() const noexcept { return block_tokens_; }
    // Blocks of this rank were seen on a tier that AllBlocksCleared does not clear.
    bool has_other_tiers() const noexcept { return has_other_tiers_; }

private:
    void stored(const Event& event, Translated& out);
    bool learn_block_size(const Event& event);
    bool group_serves(const Event& event);

    std::map<std::uint32_t, bool> groups_;  // group -> serves a look-up
    std::uint32_t block_tokens_ = 0;
    bool is_tentative_ =
        false;  // block_tokens_ is from an event with one hash: maybe a partial one
    bool has_other_tiers_ = false;
};

}  // namespace sluice::vllm
