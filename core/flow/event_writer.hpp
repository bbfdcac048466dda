// Writes KV events in vLLM's map form: the payload of one published batch after the other.
//
// A payload is ended when it is full, and so is a stored event; what goes on hangs on its last
// block. Readers apply payloads in order, so where one ends means nothing.
//
// Threads: none of its own; one instance a stream, event thread.
// Errors:  none. A salt longer than kMaxSaltBytes makes its block one that matches nothing.
// Source:  vLLM 0.24 to 0.32, event structs encoded as maps: `[ts, events, rank]`; hashes as
//          unsigned integers; extra keys bare, in the order LoRA, multimodal, salt.
// Limits:  kFullBytes a payload and at most one event more; kTokensAnEvent, kHashesAnEvent.
#pragma once
#include <sluice/sdk/kv.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::flow {

class EventWriter {
public:
    static constexpr std::size_t kFullBytes = 256U << 10U;
    static constexpr std::uint32_t kEventsAPayload = 16'384;
    static constexpr std::uint32_t kTokensAnEvent = 16'384;
    static constexpr std::size_t kHashesAnEvent = 8'192;
    static constexpr std::size_t kMaxSaltBytes = 64U << 10U;

    // Blocks that hang on each other, the first one on `parent` or on a prompt's start.
    struct Stored {
        std::span<const std::uint64_t> hashes;
        std::span<const std::uint32_t> tokens;  // of all blocks, or something else: see is_whole()
        const std::uint8_t* opaque = nullptr;   // null, or one for each hash
        std::optional<std::uint64_t> parent;
        std::uint32_t block_tokens = 0;
        std::uint32_t tier = SLUICE_TIER_GPU;
        std::uint32_t group = 0;
        std::string_view lora, salt;
        // The tokens are those of the blocks, one block after the other.
        bool is_whole() const noexcept {
            return block_tokens != 0 && !tokens.empty() &&
                   tokens.size() == hashes.size() * std::size_t{block_tokens};
        }
    };

    explicit EventWriter(std::uint32_t rank) : rank_(rank) {}

    void stored(const Stored& event);
    void removed(std::span<const std::uint64_t> hashes, std::uint32_t tier, std::uint32_t group);
    // Every block of the rank on GPU.
    void cleared();
    // What was written since the last call, stamped `at` (seconds since the epoch). Empty when
    // nothing was.
    std::vector<std::string> take(double at);
    // A batch without events.
    std::string nothing(double at) const;

private:
    struct Body {
        std::string events;
        std::uint32_t count = 0;
    };
    void one_stored(const Stored& event);
    // Where the next event goes.
    std::string& next_event();
    std::string payload(double at, const Body& body) const;

    const std::uint32_t rank_;
    std::vector<Body> bodies_;
};

}  // namespace sluice::flow
