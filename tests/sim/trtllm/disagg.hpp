// The legs of a context/generation pair as they come in requests and go out in replies.
//
// Threads: the connection's.
// Errors:  what a server refuses; a transfer that fails is a 500.
// Source:  contract sections 4.2 to 4.6.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/sim/engine/sampling.hpp"
#include "tests/sim/trtllm/api_error.hpp"
#include "tests/sim/trtllm/handoff.hpp"

namespace sluice::sim::trtllm {

class Service;

struct Disagg {
    bool is_context = false;  // else generation
    std::optional<std::uint64_t> ctx_request_id;
    std::optional<std::uint64_t> disagg_request_id;
    std::string state;
    std::vector<TokenId> first;
    std::optional<std::uint64_t> ctx_cached;  // of ctx_usage
    bool returns_base64 = false;
    const json::Value* given = nullptr;  // of the request's body

    std::uint64_t id() const { return disagg_request_id.value_or(ctx_request_id.value_or(0)); }
};

// Empty: the request is served whole.
std::variant<std::optional<Disagg>, ApiError> read_disagg(Service& s, const http::Request& request,
                                                          const json::Value& body);
// What the engine is to know of the leg; a generation leg waits here for its KV. Null: the client
// left.
std::variant<std::shared_ptr<const TransferAsk>, ApiError> ask_for(
    Service& s, http::Exchange& exchange, const Disagg& d, const std::vector<TokenId>& prompt);

// A context leg's reason as the build was told to word it.
std::string_view finish_word(const Service& s, const std::optional<Disagg>& d, FinishReason reason);
// The member of a choice, and of a whole reply.
void write_disagg(json::Writer& w, const Service& s, const std::optional<Disagg>& d,
                  const std::vector<TokenId>& made);
void write_prompt_ids(json::Writer& w, const Service& s, const std::optional<Disagg>& d,
                      const std::vector<TokenId>& prompt);

}  // namespace sluice::sim::trtllm
