// Any bytes as a KV-event batch: decoded or refused, and what was decoded can be translated.
#include <cstdlib>

#include "plugins/vllm/translate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    sluice::vllm::Batch batch;
    if (!sluice::vllm::decode({data, size}, batch)) {
        return 0;
    }
    sluice::vllm::Translator translator;
    const sluice::vllm::Translated out = translator.translate(batch);
    std::uint64_t sum = 0;
    for (const sluice_kv_event& e : out.events) {
        for (std::uint32_t i = 0; i < e.num_hashes; ++i) {
            sum += e.hashes[i] + (e.opaque != nullptr ? e.opaque[i] : 0U);
        }
        for (std::uint32_t i = 0; i < e.num_tokens; ++i) {
            sum += e.tokens[i];
        }
        sum += e.lora.len + e.salt.len;
    }
    // Bounded by the payload: a hash and a token take at least a byte each.
    if (out.events.size() > size || sum == 0x5eed5eed5eed5eedU) {
        std::abort();
    }
    return 0;
}
