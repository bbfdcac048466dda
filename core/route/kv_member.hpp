// What one rule knows of one endpoint's KV events: the signal, why it is as it is, and what is
// counted of it.
//
// The adapter speaks of an endpoint to every rule that names it. What only this rule says of its
// engine, its block size, is compared here: one rule may be refused where another is not.
//
// Threads: hear(), events_came(), forget() and what sets facts: event; declare() control; the rest
//          any.
// Units:   *_us monotonic microseconds; blocks and tokens as named.
// Limits:  kFirstBlocks prompts are remembered for repeats, later ones take the place of others.
// Source:  signal and attestation words are those of the management contract.
#pragma once
#include <sluice/sdk/kv.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/snapshot.hpp"
#include "core/kv/keys.hpp"

namespace sluice::route {

// What is known about one endpoint's signal, in words.
struct KvWords {
    std::string reason;       // stable snake_case, e.g. "events_off"; several: candidates, by comma
    std::string detail;       // for people
    std::string advice;       // the setting to change, or empty
    std::string attestation;  // attested | unproven | mismatch:block_size | ...
    std::string note;         // of a signal that is fine: "legacy"
};

// What a state is called where no rule is looked at: ok, warming, doubtful, dead, refused, stolen
// or off.
std::string_view signal_word(std::uint32_t state, std::uint32_t why,
                             std::string_view reason) noexcept;

// How a prompt became tokens here.
enum class TokensOf : std::uint8_t { Text, Template };

class KvMember {
public:
    static constexpr std::size_t kFirstBlocks = 256;
    static constexpr std::uint32_t kManyDiffer = 3;

    explicit KvMember(std::uint64_t endpoint) : endpoint_(endpoint) {}

    std::uint64_t endpoint() const noexcept { return endpoint_; }
    // SLUICE_KV_*: WAITING until the adapter speaks; REFUSED where the rule's block size is not the
    // engine's.
    std::uint32_t state() const noexcept;
    // The first event or live link; 0 = not yet. Warm-up counts from it.
    std::uint64_t since_us() const noexcept { return since_us_.load(std::memory_order_relaxed); }
    std::uint64_t last_event_us() const noexcept {
        return last_event_us_.load(std::memory_order_relaxed);
    }
    // Block size of the last stored event; 0 = none came.
    std::uint32_t block_tokens() const noexcept {
        return block_tokens_.load(std::memory_order_relaxed);
    }
    // The engine's block size where the rule declares another; 0 = they agree, or nothing is known.
    std::uint32_t foreign_block_tokens() const noexcept;
    KvWords words() const;
    // Whether blocks of a prompt tokenized here were found among the engine's: its tokens and ours
    // agree. [any]
    bool tokens_agree() const noexcept { return tokens_agree_.load(std::memory_order_relaxed); }
    void note_tokens_agree() noexcept {
        if (!tokens_agree()) {
            tokens_agree_.store(true, std::memory_order_relaxed);
        }
    }
    // The engine said which ids a prompt tokenized here has: whether they are ours. A few prompts
    // in a row that differ are a mismatch until one of their kind agrees. True: that began now.
    // [any]
    bool note_engine_tokens(TokensOf kind, bool is_same) noexcept;
    // ok | warming | quiet | doubtful | dead | refused | stolen | off
    std::string_view signal(std::uint32_t warmup_sec, std::uint64_t now) const;
    bool is_warming(std::uint32_t warmup_sec, std::uint64_t now) const noexcept;
    // Its blocks are not to be routed by, and the receipt's word for it; empty: they are.
    std::string_view distrust() const noexcept;
    // The events' source answers and was admitted.
    bool is_connected() const;

    // Whether a prompt that begins with this block was served here before; it has been now. [any]
    bool note_first_block(kv::Key key) noexcept {
        std::atomic<kv::Key>& slot = first_blocks_[key % kFirstBlocks];
        return slot.exchange(key, std::memory_order_relaxed) == key;
    }

    // Counters. Of reports by SLUICE_WHY_*; batches that the index refused; links come back.
    std::uint64_t count_of(std::uint32_t why) const noexcept {
        return why < counts_.size() ? counts_[why].load(std::memory_order_relaxed) : 0;
    }
    std::uint64_t rejects() const noexcept { return rejects_.load(std::memory_order_relaxed); }
    std::uint64_t reconnects() const noexcept {
        return reconnects_.load(std::memory_order_relaxed);
    }

    // --- what the plane hands on
    void declare(std::uint32_t block_tokens) noexcept { declared_ = block_tokens; }  // 0 = nothing
    void told_block_tokens(std::uint32_t tokens) noexcept { told_block_tokens_ = tokens; }
    void hear(const sluice_kv_report& report);
    void events_came(const sluice_kv_batch& batch);
    void batch_refused() noexcept { rejects_.fetch_add(1, std::memory_order_relaxed); }
    // Whether it is another process or only some blocks of this one that are forgotten.
    void forget(bool is_all) noexcept;
    void copy(const KvMember& from);

private:
    // As events show it, else as the adapter says; 0 = unknown.
    std::uint32_t engine_block_tokens() const noexcept;
    // The rule declares the engine's own block size.
    bool agrees() const noexcept;
    // The adapter refuses for the block size that another rule declares.
    bool is_refused_for_another() const noexcept;
    void set_linked(bool is_up) noexcept;
    bool differs(TokensOf kind) const noexcept {
        return differ_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed) >=
               kManyDiffer;
    }

    const std::uint64_t endpoint_;
    std::atomic<std::uint32_t> state_{SLUICE_KV_WAITING};  // as the adapter says
    std::atomic<std::uint32_t> why_{SLUICE_WHY_NONE};      // of the state
    std::atomic<std::uint64_t> since_us_{0};
    std::atomic<std::uint64_t> last_event_us_{0};
    std::atomic<std::uint32_t> declared_{0};
    std::atomic<std::uint32_t> block_tokens_{0};
    std::atomic<std::uint32_t> told_block_tokens_{0};
    std::atomic<std::uint64_t> rejects_{0};
    std::atomic<std::uint64_t> reconnects_{0};
    std::atomic<bool> is_linked_{false};
    std::atomic<bool> was_linked_{false};
    std::atomic<bool> tokens_agree_{false};
    std::array<std::atomic<std::uint32_t>, 2> differ_{};  // prompts in a row, by TokensOf
    std::array<std::atomic<std::uint64_t>, SLUICE_WHY_LEGACY + 1> counts_{};
    std::array<std::atomic<kv::Key>, kFirstBlocks> first_blocks_{};
    Snapshot<KvWords> words_;
};

using KvMemberPtr = std::shared_ptr<KvMember>;

}  // namespace sluice::route
