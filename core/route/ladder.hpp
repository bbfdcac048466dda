// The tier ladder: who answers this request, and why not somebody better.
//
// Tiers are asked in order; each either decides or says why it passes. A smart tier can only
// improve a route: any doubt falls through, and the reason is counted and in the receipt.
//
// A P/D rule asks the same ladder once a leg, with the leg's role: session, prefix history,
// KV-exact (prefill), load.
//
// Threads: request; a Ladder is the scratch space of one loop and is used for one choice at a time.
// Errors:  none; nothing eligible is Decision::is_found false.
// Source:  routing contract, sections 4, 5.3, 6 and 13.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/route/kv_exact_tier.hpp"
#include "core/route/load_tier.hpp"
#include "core/route/prefix_tier.hpp"
#include "core/route/selector_tier.hpp"
#include "core/route/session_tier.hpp"

namespace sluice::route {

struct Decision {
    bool is_found = false;
    std::size_t index = 0;  // in the pool
    Tier tier = Tier::None;
    std::uint32_t matched_blocks = 0;
    std::uint32_t rank = UINT32_MAX;
    std::uint32_t block_tokens = 0;  // of the chosen endpoint; 0 = the prompt is not known
    // Not found: the endpoint of the role with the shortest queue, if only places are missing.
    std::optional<std::size_t> to_wait_for;
};

// So little of a prompt of so many tokens would be left to compute at a decode endpoint that a
// prefill leg costs more (pd_conditional).
bool holds_prompt(const rules::PdSpec& spec, const Decision& decode,
                  std::size_t num_tokens) noexcept;

class Ladder {
public:
    // Fills the receipt's candidates and misses. Charges nothing: the caller takes the lease.
    Decision choose(const Question& q, Receipt& receipt);

private:
    Verdict consider_affinity(const Question& q, Receipt& receipt, Decision& out);
    std::optional<std::size_t> shortest_queue(const Question& q) const;

    Rows rows_;
    SessionTier session_;
    PrefixTier prefix_;
    KvExactTier kv_exact_;
    LoadTier load_;
    SelectorTier selector_;
};

}  // namespace sluice::route
