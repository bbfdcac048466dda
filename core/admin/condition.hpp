// How a rule is, in one word, from how its endpoints are.
//
// Threads: any (pure functions).
// Source:  the management contract: operatingStatus; kvexactstatus and its table of states.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/admin/providers.hpp"

namespace sluice::admin {

// ONLINE | DEGRADED | OFFLINE | ERROR | NO_MONITOR. An endpoint that drains is out on purpose and
// does not degrade a rule; one that is down or disabled does.
std::string_view operating_status(const rules::Rule& rule, const RuleLive& live);

// The state of KV-exact routing, with why it is not READY.
struct KvExactState {
    std::string_view state = "READY";
    std::vector<std::string> reasons;  // stable words, sorted, without repeats
};
KvExactState kv_exact_state(const rules::KvSpec& declared, const KvLive& live);
// Of a rule: that of its worst endpoint, with the reasons of all.
KvExactState kv_exact_state(const rules::Rule& rule, const RuleLive& live);

// Whether the engine's events are admitted, with the reason where there is one: "admitted",
// "admitted (legacy engine: no hash is named)", "waiting: unreachable",
// "refused: block_size: tokens_per_block 64, the rule says 32".
std::string admission_text(const KvLive& live, bool is_waiting);

// "2026-11-29T22:15:32.123Z"; empty for 0.
std::string rfc3339(std::uint64_t since_epoch_us);

}  // namespace sluice::admin
