// May an endpoint's events be followed? What GET /server_info says, against what the rule says.
//
// Early builds have no such route, or name neither hash nor block size in it: they are admitted
// with a visible note, and the first stored event that shows the block size confirms it.
//
// Threads: none of its own; no state.
// Errors:  parse_server_info() is empty where the text is not the documented object.
// Units:   block sizes in tokens.
// Source:  trtllm-serve 1.2 (disaggregated_params alone) to 1.3 and later (all members).
// Limits:  the caller bounds the text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugins/trtllm/settings.hpp"

namespace sluice::trtllm {

struct ServerInfo {
    std::optional<std::string> hash_algo;
    // As configured: some attention back ends force another size.
    std::optional<std::uint32_t> tokens_per_block;
    std::optional<std::uint32_t> max_batch_size;
};
std::optional<ServerInfo> parse_server_info(std::string_view body);

struct Admission {
    enum class Kind { Admitted, Legacy, Refused } kind = Kind::Admitted;
    std::uint32_t why = 0;               // SLUICE_WHY_*, of a refusal
    std::string reason, detail, advice;  // reason: block_size, hash_algo, legacy
    std::uint32_t block_tokens = 0;      // to be followed with; 0 = refused
};

// `shown`: the block size that this engine's events showed, whatever it configured.
Admission judge(const ServerInfo& info, const Settings& settings,
                std::optional<std::uint32_t> shown);

}  // namespace sluice::trtllm
