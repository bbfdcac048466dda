// The bodies of a bench chat: as a client sends it, and for either leg as a gateway does.
//
// Threads: any; values.
// Source:  vLLM contract, prefill/decode over NIXL (recorded exchanges pd-prefill-chat and
//          pd-decode-chat).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::bench {

struct Bodies {
    std::string chat;     // about `bytes` long
    std::string prefill;  // the same prompt, one token, no stream, asked for a hand-off
    std::string decode;   // the chat up to where the hand-off's object goes
    static constexpr std::string_view kDecodeEnd = "}";
};
Bodies bodies(std::size_t bytes, bool is_stream, unsigned max_tokens);

// The object that a prefill answer hands over; empty: it has none.
std::string_view handed_over(std::string_view answer) noexcept;

}  // namespace sluice::bench
