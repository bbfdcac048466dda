// The KV events of one rule: its block index, and what is known about the signal of each endpoint.
//
// Outlives edits of the rule: endpoints that stay keep their inventory.
//
// Threads: attach(), detach(), apply(), reset(), report() event; the rest any.
// Units:   *_us monotonic microseconds; blocks.
// Source:  signal and attestation words are those of the management contract.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/snapshot.hpp"
#include "core/kv/index.hpp"

namespace sluice::route {

// What the adapter last said about one endpoint's signal.
struct KvWords {
    std::string reason;       // stable snake_case, e.g. "events_off"
    std::string detail;       // for people
    std::string advice;       // the engine setting to change, or empty
    std::string attestation;  // attested | unproven | mismatch:block_size | ...
};

class KvMember {
public:
    explicit KvMember(std::uint64_t endpoint) : endpoint_(endpoint) {}

    std::uint64_t endpoint() const noexcept { return endpoint_; }
    // SLUICE_KV_*: WAITING until the adapter speaks.
    std::uint32_t state() const noexcept { return state_.load(std::memory_order_relaxed); }
    // The first event or live link; 0 = not yet. Warm-up counts from it.
    std::uint64_t since_us() const noexcept { return since_us_.load(std::memory_order_relaxed); }
    std::uint64_t last_event_us() const noexcept {
        return last_event_us_.load(std::memory_order_relaxed);
    }
    // Block size of the last stored event; 0 = none came.
    std::uint32_t block_tokens() const noexcept {
        return block_tokens_.load(std::memory_order_relaxed);
    }
    std::uint64_t rejects() const noexcept { return rejects_.load(std::memory_order_relaxed); }
    std::shared_ptr<const KvWords> words() const { return words_.get(); }
    // Whether blocks of a prompt tokenized here were found among the engine's: its tokens and ours
    // agree. [any]
    bool tokens_agree() const noexcept { return tokens_agree_.load(std::memory_order_relaxed); }
    void note_tokens_agree() noexcept {
        if (!tokens_agree()) {
            tokens_agree_.store(true, std::memory_order_relaxed);
        }
    }
    // ok | warming | quiet | doubtful | dead | refused | stolen | off
    std::string_view signal(std::uint32_t warmup_sec, std::uint64_t now) const;
    bool is_warming(std::uint32_t warmup_sec, std::uint64_t now) const noexcept;

private:
    friend class KvPlane;
    const std::uint64_t endpoint_;
    std::atomic<std::uint32_t> state_;
    std::atomic<std::uint64_t> since_us_{0};
    std::atomic<std::uint64_t> last_event_us_{0};
    std::atomic<std::uint32_t> block_tokens_{0};
    std::atomic<std::uint64_t> rejects_{0};
    std::atomic<bool> tokens_agree_{false};
    Snapshot<KvWords> words_;
};

using KvMemberPtr = std::shared_ptr<KvMember>;

class KvPlane {
public:
    explicit KvPlane(const kv::IndexOptions& options) : index_(options) {}

    // The member of an endpoint, made at the first call. [control]
    KvMemberPtr member(std::uint64_t endpoint);

    // [event]
    Status attach(std::uint64_t endpoint, std::uint32_t ranks) {
        return index_.attach(endpoint, ranks);
    }
    void detach(std::uint64_t endpoint);
    // What another rule's plane knows of an endpoint that is attached to both.
    void copy(KvPlane& from, std::uint64_t endpoint);
    Status apply(const sluice_kv_batch& batch, std::uint32_t* unplaced);
    void reset(std::uint64_t endpoint, std::uint32_t rank);
    void report(const sluice_kv_report& report);

    // [event] A new bound, in force at once.
    void set_max_blocks(std::uint64_t per_endpoint) { index_.set_max_blocks(per_endpoint); }

    const kv::Index& index() const noexcept { return index_; }
    // The number of this hit, from 1; for the cold seed. [any]
    std::uint64_t next_hit() noexcept { return hits_.fetch_add(1, std::memory_order_relaxed) + 1; }

private:
    KvMemberPtr find(std::uint64_t endpoint) const;

    kv::Index index_;
    std::atomic<std::uint64_t> hits_{0};
    mutable std::mutex mu_;
    std::map<std::uint64_t, KvMemberPtr> members_;  // guarded by mu_
};

}  // namespace sluice::route
