// What a P/D rule remembers; it outlives edits of the rule.
//
// Threads: any.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/route/admission.hpp"
#include "core/route/handoffs.hpp"
#include "core/route/prefixes.hpp"
#include "core/route/sessions.hpp"

namespace sluice::route {

struct PdState {
    Sessions sessions;
    Prefixes prefixes;
    const std::shared_ptr<Admission> admission = std::make_shared<Admission>();
    const std::shared_ptr<Ledger> handoffs = std::make_shared<Ledger>();
    // Whose turn it is among equally loaded endpoints, by role.
    std::array<std::atomic<std::uint32_t>, 3> turns{};
};

}  // namespace sluice::route
