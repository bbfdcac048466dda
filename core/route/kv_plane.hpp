// The KV events of one rule: its block index, and what is known about the signal of each endpoint.
//
// Outlives edits of the rule: endpoints that stay keep their inventory.
//
// Threads: attach(), detach(), facts(), apply(), reset(), report() event; member() and declare()
//          control; the rest any.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "core/kv/index.hpp"
#include "core/route/kv_member.hpp"

namespace sluice::route {

class KvPlane {
public:
    explicit KvPlane(const kv::IndexOptions& options) : index_(options) {}

    // The member of an endpoint, made at the first call. [control]
    KvMemberPtr member(std::uint64_t endpoint);
    // The block size that the rule declares; 0 = none. [control]
    void declare(std::uint32_t block_tokens);

    // [event]
    Status attach(std::uint64_t endpoint, std::uint32_t ranks) {
        return index_.attach(endpoint, ranks);
    }
    void detach(std::uint64_t endpoint);
    // What another rule's plane knows of an endpoint that is attached to both.
    void copy(KvPlane& from, std::uint64_t endpoint);
    Status apply(const sluice_kv_batch& batch, std::uint32_t* unplaced);
    void reset(std::uint64_t endpoint, std::uint32_t rank);
    // The block size that the adapter reports; 0 = unknown keeps what was known.
    void facts(std::uint64_t endpoint, std::uint32_t block_tokens);
    void report(const sluice_kv_report& report);

    // [event] A new bound, in force at once.
    void set_max_blocks(std::uint64_t per_endpoint) { index_.set_max_blocks(per_endpoint); }

    const kv::Index& index() const noexcept { return index_; }
    // The number of this hit, from 1; for the cold seed. [any]
    std::uint64_t next_hit() noexcept { return hits_.fetch_add(1, std::memory_order_relaxed) + 1; }
    // Look-ups in a row, this one included, that found nothing; `is_hit` begins anew. [any]
    std::uint64_t note_lookup(bool is_hit) noexcept {
        if (!is_hit) {
            return zero_hits_.fetch_add(1, std::memory_order_relaxed) + 1;
        }
        if (zero_hits_.load(std::memory_order_relaxed) != 0) {
            zero_hits_.store(0, std::memory_order_relaxed);
        }
        return 0;
    }

private:
    KvMemberPtr find(std::uint64_t endpoint) const;

    kv::Index index_;
    std::atomic<std::uint64_t> hits_{0};
    std::atomic<std::uint64_t> zero_hits_{0};
    mutable std::mutex mu_;
    std::map<std::uint64_t, KvMemberPtr> members_;  // guarded by mu_
    std::uint32_t declared_ = 0;                    // guarded by mu_
};

}  // namespace sluice::route
