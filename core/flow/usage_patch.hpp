// Puts the prefill engine's count of cached tokens into an answer of the decode engine, which
// counts what was handed over as cached.
//
// Every `"cached_tokens": <number>` is meant: inside a JSON string the quote behind the name would
// be escaped. Bytes that may be the beginning of one wait for the next part, everything else goes
// on at once.
//
// Threads: one response's.
// Limits:  holds back less than 64 bytes.
// Source:  OpenAI usage objects (prompt_tokens_details, input_tokens_details).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::flow {

class UsagePatch {
public:
    // The count may become known while the response goes on; until then nothing is changed.
    explicit UsagePatch(const std::optional<std::uint32_t>& cached_tokens)
        : cached_tokens_(cached_tokens) {}

    // What of the response may go on now; valid until the next call. `last`: nothing follows.
    std::string_view apply(std::string_view part, bool last);

private:
    const std::optional<std::uint32_t>& cached_tokens_;
    std::string held_;  // the end of the last part
    std::string out_;
};

}  // namespace sluice::flow
