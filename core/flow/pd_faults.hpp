// What is done about each way a split request can fail: the one place that knows.
//
// Another endpoint gets a request only where the first engine cannot have begun, where what it
// began has shown nothing to anybody (prefill), or where the adapter says so; each pair of legs has
// a new transfer id. What a decode engine may have read is never given to another.
//
// Threads: any; values.
// Source:  routing contract, sections 7.4 and 12 (codes and details).
#pragma once
#include <cstdint>
#include <string_view>

namespace sluice::flow {

// What a client is told whose answer may be of another prompt's blocks.
inline constexpr std::string_view kReadLate =
    "the decode endpoint may have read what it was handed too late";

enum class PdFault : std::uint8_t {
    NoPrefill,         // nobody of the role is healthy
    PrefillUnreached,  // no connection
    PrefillUnready,    // by the adapter's word it cannot take part in a pair for now
    PrefillDied,       // the connection ended before the whole reply
    PrefillLate,
    PrefillBusy,          // full, by its own word
    PrefillBroken,        // it answered that something is wrong with it
    PrefillBrokenBeside,  // the same, while decode waited for it
    PrefillUnusable,      // what it answered says nothing
    PrefillRestart,       // by the adapter's word both legs are to be run again
    NoDecode,
    DecodeUnreached,
    DecodeStale,  // a kept connection broke: it has hardly begun, but may have
    DecodeDied,   // without a byte
    DecodeLate,
    DecodeBusy,
    DecodeElsewhere,  // it did not begin
    DecodeRestart,    // what was handed over is used up
    DecodeTooLate,    // it may have read other blocks than it was handed
};

enum class PdCure : std::uint8_t {
    Pair,    // both legs again, elsewhere if possible
    Decode,  // another decode endpoint gets the same
    Plain,   // decode computes the prompt itself
    Spare,   // whoever serves whole requests in need
    Relay,   // the engine's answer goes to the client
    Refuse,
};

struct PdRefusal {
    std::uint16_t status = 0;
    std::string_view code;
    std::string_view message;
};

// What was tried already.
struct PdSpent {
    std::uint32_t legs = 0;      // sent on after one of this kind of fault
    std::uint32_t max_legs = 0;  // retry.connect
    std::uint32_t restarts = 0;  // of what an engine may have begun
    bool may_repeat = false;     // retry.after_dispatch
    bool has_other = false;      // another endpoint of the role could take it
};

struct PdAdvice {
    PdCure cure = PdCure::Refuse;
    PdRefusal refusal;  // with Refuse
};

PdAdvice advice_for(PdFault fault, const PdSpent& spent) noexcept;

}  // namespace sluice::flow
