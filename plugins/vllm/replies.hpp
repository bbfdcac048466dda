// What a refused generation request means: the client's fault, a full engine, or one that is going.
//
// A 502 or 504 is a proxy's before the engine, which may have begun: nobody else may be asked.
//
// Threads: any.
// Errors:  none; what is not recognised is relayed as it is.
// Source:  vLLM 0.32 while draining and after its core died, as
// tests/unit/plugin_vllm/facts_test.cpp
//          has it.
#pragma once
#include <cstdint>
#include <string_view>

namespace sluice::vllm {

enum class ReplyMeaning {
    Relay,     // pass it on
    Busy,      // full: another endpoint may do, this one is not broken
    Draining,  // shutting down: no new request will be taken
    Dead,      // its core is gone
    Elsewhere  // a proxy in front of it cannot reach it
};

ReplyMeaning meaning_of(std::uint32_t http_code, std::string_view body) noexcept;

}  // namespace sluice::vllm
