// Why an endpoint's events stay away, as far as answered requests show.
//
// The reply to a drain is an empty list in each case: the buffer is off, events are published
// elsewhere, blocks are not reused at all. Usage tells them apart: cached tokens mean that blocks
// are reused, so only the events are missing; a prompt's blocks served a second time with none
// cached mean that reuse is off. Without usage both stay possible.
//
// Threads: note(), any() and judge() any; forget() event.
// Errors:  none.
// Source:  trtllm-serve, kv_cache_config.event_buffer_max_size and enable_block_reuse.
#pragma once
#include <sluice/sdk/engine.h>

#include <atomic>
#include <cstdint>

namespace sluice::trtllm {

enum class Silence { None, EventsEmpty, ReuseOff, Unclear };

class Served {
public:
    static constexpr std::uint32_t kColdRepeats = 2;
    static constexpr std::uint32_t kManyUntold = 4;  // requests that tell nothing

    void note(const sluice_served& served, std::uint32_t block_tokens) noexcept {
        if (served.prompt_blocks == 0 || served.prompt_blocks == SLUICE_ANY) {
            return;  // too short to store a whole block
        }
        all_.fetch_add(1, std::memory_order_relaxed);
        if (served.cached_tokens == SLUICE_ANY) {
            return;
        }
        if (served.cached_tokens / block_tokens < served.prompt_blocks) {
            stores_.fetch_add(1, std::memory_order_relaxed);
        }
        if (served.cached_tokens != 0) {
            cached_.fetch_add(1, std::memory_order_relaxed);
        } else if ((served.flags & SLUICE_SERVED_REPEAT) != 0) {
            cold_repeats_.fetch_add(1, std::memory_order_relaxed);
        }
    }
    bool any() const noexcept { return all_.load(std::memory_order_relaxed) != 0; }
    // To be asked only while no event has come although drains are answered.
    Silence judge() const noexcept {
        const auto of = [](const std::atomic<std::uint32_t>& n) {
            return n.load(std::memory_order_relaxed);
        };
        if (of(cached_) != 0) {
            // Without a new block there is nothing to announce.
            return of(stores_) != 0 ? Silence::EventsEmpty : Silence::None;
        }
        if (of(cold_repeats_) >= kColdRepeats) {
            return Silence::ReuseOff;
        }
        return of(all_) >= kManyUntold ? Silence::Unclear : Silence::None;
    }
    void forget() noexcept {
        all_.store(0, std::memory_order_relaxed);
        stores_.store(0, std::memory_order_relaxed);
        cached_.store(0, std::memory_order_relaxed);
        cold_repeats_.store(0, std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint32_t> all_{0}, stores_{0}, cached_{0}, cold_repeats_{0};
};

}  // namespace sluice::trtllm
