// The header by which a generation leg proves that its hand-off came from an orchestrator.
//
// Threads: any; no state.
// Errors:  sign() is empty where a text is no UTF-8, or a digest could not be made.
// Source:  trtllm-serve of 2026, internal_request_auth_key; tests/vectors/trtllm_disagg_auth.jsonl.
//          Earlier builds signed other text; they are not served.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace sluice::trtllm {

inline constexpr std::string_view kAuthHeader = "x-trtllm-disagg-auth";

// The two protected members of disaggregated_params; empty = null.
struct Protected {
    std::optional<std::string_view> ctx_info_endpoint, encoded_opaque_state;
    bool any() const noexcept { return ctx_info_endpoint || encoded_opaque_state; }
};

// What is signed: both members, always, sorted, in Python's ASCII JSON without blanks.
std::optional<std::string> signed_text(const Protected& fields);
// The header's value: "sha256=" and the HMAC-SHA-256 in hex. With nothing protected there is no
// header, and asking for one answers empty.
std::optional<std::string> sign(std::string_view key, const Protected& fields);

}  // namespace sluice::trtllm
