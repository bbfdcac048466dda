// The rule fields this adapter takes, and what a schema cannot say about them.
//
// Threads: control.
// Errors:  parse_settings() throws Failure(SLUICE_E_CONFIG); check_rule() speaks through the
// verdict.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/sdk.hpp"

namespace sluice::trtllm {

// A field the operator did not write declares nothing.
struct Settings {
    std::optional<std::uint32_t> block_size;
    std::string key_file;  // signs generation legs; empty = they are not signed
};

Settings parse_settings(std::string_view config);
void check_rule(const sluice_proposal& in, Verdict& out);

}  // namespace sluice::trtllm
