// Turns the events of one rank, as the engine's adapter gives them, into payloads that a reader of
// vLLM's form understands alike: the same blocks, under the same roots, counted the same.
//
//   what the adapter says                what is written
//   a copy more, a copy less             the same
//   a block stored that is held          nothing, where the engine does not count copies
//   clear one group, or a reset          everything on GPU cleared, other tiers removed by name
//   a block that matches nothing         with a key no request can be computed with
//   a block under an unknown parent      nothing, where the engine does not count copies
//
// Threads: none of its own; one instance a stream, event thread.
// Errors:  none; the batch was checked by the index.
// Limits:  EventLedger's; what finds no room there is left out and counted.
#pragma once
#include <sluice/sdk/kv.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/flow/event_ledger.hpp"
#include "core/flow/event_writer.hpp"

namespace sluice::flow {

class EventEncoder {
public:
    EventEncoder(std::uint32_t rank, std::uint64_t max_blocks)
        : writer_(rank), ledger_(max_blocks) {}

    void set_max_blocks(std::uint64_t max_blocks) noexcept { ledger_.set_max_blocks(max_blocks); }
    // Payloads in the order in which they are to be published; `at` in seconds since the epoch.
    std::vector<std::string> encode(const sluice_kv_batch& batch, double at);
    // Readers are to forget the rank; nothing when they hold nothing of it.
    std::vector<std::string> forget(double at);
    // A batch without events.
    std::string nothing(double at) const { return writer_.nothing(at); }
    // Readers may hold something of the rank.
    bool has_told() const noexcept { return has_told_; }
    // Blocks left out because the ledger was full.
    std::uint64_t left_out() const noexcept { return left_out_; }

private:
    using Place = EventLedger::Place;
    void stored(const sluice_kv_event& event);
    void stored_counted(const sluice_kv_event& event);
    void stored_once(const sluice_kv_event& event);
    void removed(const sluice_kv_event& event);
    void cleared(std::uint32_t tier, std::uint32_t group);
    // Blocks from..to of an event, each new to readers.
    void write(const sluice_kv_event& event, std::size_t from, std::size_t to);

    EventWriter writer_;
    EventLedger ledger_;
    bool has_told_ = false;  // something was stored since readers were last told to forget
    std::uint64_t left_out_ = 0;
};

}  // namespace sluice::flow
