// Everything stored as one JSON document (snapshot), and the rules alone to take elsewhere
// (export).
//
// A snapshot names numbers, identities and counters, so that it can be brought back as it was; an
// export holds bodies as they were posted and no identity. Neither shows a secret: kHidden stands
// in its place, and a restore takes it from the rule in force.
//
// Threads: any.
// Errors:  a Refusal names the member that is wrong, as "rules[3].endpoints[0].id".
// Limits:  documents of at most kMaxDocumentBytes.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/rules/json_value.hpp"
#include "core/rules/refusal.hpp"
#include "state/state.hpp"

namespace sluice::rules {

inline constexpr std::size_t kMaxDocumentBytes = 32U << 20U;
// Of the document's own members; a newer one is refused.
inline constexpr std::uint64_t kDocumentFormat = 1;

Json snapshot_of(const state::Contents& contents, std::uint64_t taken_us);
// Without "commit", or any other member that is not the snapshot's own.
std::optional<Refusal> read_snapshot(const Json& document, state::Contents& out);

Json export_of(const state::Contents& contents, std::uint64_t taken_us);
// The bodies of {"rules": [...]}.
std::optional<Refusal> read_export(const Json& document, std::vector<std::string>& bodies);

// A request's body; 400 or 413.
std::optional<Refusal> read_document(std::string_view text, Json& out);

}  // namespace sluice::rules
