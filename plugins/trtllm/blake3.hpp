// BLAKE3 of a short text, 32 bytes: engines up to 1.3 name a cache salt by it.
//
// Written from the published specification, as no Debian 12 package has it as a C or C++ library.
// Not for secrets that must stay secret against timing, and not fast.
//
// Threads: any; no state.
// Errors:  none.
// Source:  the BLAKE3 paper, section 2; its test vectors in
// tests/unit/plugin_trtllm/blake3_test.cpp.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::trtllm {

std::array<std::uint8_t, 32> blake3(std::string_view text);

}  // namespace sluice::trtllm
