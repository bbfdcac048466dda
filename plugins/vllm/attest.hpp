// Compares what a rule declares (hash algorithm, seed) with the hashes an engine publishes.
//
// The first blocks of prompts are hashed again here with each algorithm, a few seeds and both forms
// of extra keys; the one that fits is the engine's. Once found it also shows blocks whose hash
// depends on something the event hides (engines before 0.17 publish no extra keys).
//
// Threads: none of its own; one instance per (endpoint, rank), event thread.
// Errors:  none; a verdict is given once per change.
// Source:  hashing.hpp.
// Limits:  kMaxTries prompts are looked at; about 30 hashes of one block each.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/vllm/hashing.hpp"
#include "plugins/vllm/settings.hpp"

namespace sluice::vllm {

enum class Attestation { Attested, OtherAlgorithm, OtherSeed, Unproven };

struct Verdicted {
    Attestation result;
    std::string detail;
};

// A stored event that begins a prompt.
struct Root {
    std::span<const std::uint32_t> tokens;
    std::span<const std::uint64_t> hashes;
    std::uint32_t block_tokens = 0;
    Identity who;             // lora_path empty: not known
    bool shows_keys = false;  // the event has extra keys; without them any block may be salted
};

class Attestor {
public:
    static constexpr unsigned kMaxTries = 32;
    static constexpr unsigned kHiddenTries = 4;  // misses needed where the event hides its keys

    explicit Attestor(const Settings& settings);
    // The algorithm's name by the engine's own metrics.
    void hint(std::string_view algorithm) { hint_ = algorithm; }
    // A verdict when this root changes it.
    std::optional<Verdicted> see(const Root& root);
    // How many leading blocks of a keyless root are plain text of the base model: the rest is
    // opaque. All of them while the engine's hashing is not known.
    std::size_t plain_blocks(const Root& root) const;
    bool is_known() const noexcept { return found_.has_value(); }
    std::string_view key_form() const noexcept;
    void forget();

private:
    struct Candidate {
        HashRule rule;
        std::optional<std::string> seed;
        Digest none;
    };
    bool fits(const Candidate& c, const Root& root, KeyForm form) const;
    bool try_candidates(const Root& root);
    std::optional<Verdicted> conclude(const Root& root, bool fitted);
    std::optional<Verdicted> say(Attestation result, std::string detail);

    std::optional<Algorithm> algorithm_;
    std::optional<std::string> seed_;
    std::string hint_;
    std::vector<Candidate> candidates_;
    std::optional<std::size_t> found_;
    std::optional<KeyForm> form_;
    unsigned tries_ = 0;
    std::optional<Attestation> said_;
    bool said_form_ = false;
};

}  // namespace sluice::vllm
