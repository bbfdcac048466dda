// Any text as an engine's reply: spans lie inside it, in order, and are JSON themselves.
#include <cstdlib>
#include <string>

#include "plugins/vllm/pd.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    namespace spans = sluice::spans;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto& list : {spans::members_of(text), spans::elements_of(text)}) {
        if (!list) {
            continue;
        }
        const char* at = text.data();
        for (const spans::Span& span : *list) {
            const char* const begin = span.value.data();
            if (begin < at || begin + span.value.size() > text.data() + text.size() ||
                span.value.empty()) {
                std::abort();
            }
            at = begin + span.value.size();
            // A value stands for itself.
            if (!spans::elements_of("[" + std::string(span.value) + "]")) {
                std::abort();
            }
        }
    }
    if (const auto reply = sluice::vllm::read_prefill_reply(text)) {
        (void)sluice::vllm::cached_tokens_of(*reply);
    }
    (void)sluice::vllm::parse_bootstrap(text);
    (void)sluice::vllm::version_number(text);
    return 0;
}
