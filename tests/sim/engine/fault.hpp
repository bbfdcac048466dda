// Ways to fail on request, for tests of what stands in front of the engine.
//
// A fault is a word with a number: `cut-after:3`. It comes in the header X-Sim-Fault of one
// request, or is armed for the next ones by POST /sim/fault {"fault":"cut-after:3","count":2}. The
// README beside this file lists them.
//
// Threads: FaultBoard from any.
// Errors:  parse_fault() is empty for a word it does not know.
// Limits:  kMaxArmed armed entries; the oldest gives way.
#pragma once
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>

#include "tests/sim/support/http_request.hpp"

namespace sluice::sim {

enum class FaultKind {
    None,
    SlowHead,    // milliseconds before the reply begins
    Reset,       // RST before any byte
    Close,       // FIN before any byte
    Hang,        // nothing, until the client leaves
    Status,      // an error of that status
    Draining,    // the 500 of an engine that is shutting down, then a close
    CutAfter,    // FIN after n events (n bytes of a plain body)
    ResetAfter,  // RST after n events (n bytes of a plain body)
    ErrorAfter,  // n events, an error event, [DONE], close; a plain request gets a 500
    StallAfter,  // n events, then silence until the client leaves
    AbortAfter,  // finish_reason "abort" after n tokens
    ExitAfter,   // the process ends with kFaultExit after n events
    Garbage,     // a 200 that is no JSON; drains of KV events only
    Health,      // status of /health from now on; armed only
};

inline constexpr int kFaultExit = 71;
// An engine with a NIXL connector that was given a client's kv_transfer_params.
inline constexpr int kForeignTransferExit = 70;

struct Fault {
    FaultKind kind = FaultKind::None;
    std::uint64_t number = 0;
};

std::optional<Fault> parse_fault(std::string_view text) noexcept;

class FaultBoard {
public:
    static constexpr std::size_t kMaxArmed = 64;

    // For the next `count` generation requests; 0: for all until cleared.
    void arm(const Fault& fault, std::uint64_t count);
    void clear();
    // The fault of what now begins: of a request the one it brings, else the one that was armed.
    Fault of(const http::Request& request);
    int health() const;

    Fault take();

private:
    struct Armed {
        Fault fault;
        std::uint64_t left = 0;
        bool is_endless = false;
    };
    mutable std::mutex mu_;
    std::deque<Armed> armed_;  // guarded by mu_
    int health_ = 200;         // guarded by mu_
};

}  // namespace sluice::sim
