// Any text as the reply to a drain: decoded or lost, and what was decoded can be ordered and handed
// to a host twice.
#include <cstdlib>

#include "plugins/trtllm/translate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sluice::trtllm;
    Drained drained;
    const bool is_read = decode({reinterpret_cast<const char*>(data), size}, drained);
    if (is_read != drained.fault.empty() || (!is_read && !drained.events.empty())) {
        std::abort();
    }
    for (const bool checks_hashes : {false, true}) {
        Translator translator({8, HashAlgo::V1BlockKey, checks_hashes});
        std::uint64_t sum = 0;
        for (int round = 0; round < 2; ++round) {
            const Translated out = translator.translate(drained);
            for (const Step& step : out.steps) {
                if (step.rank >= kMaxRanks) {
                    std::abort();
                }
                for (const sluice_kv_event& e : step.events) {
                    if (e.num_tokens != 0 && e.num_tokens != std::uint64_t{8} * e.num_hashes) {
                        std::abort();  // only whole blocks
                    }
                    for (std::uint32_t i = 0; i < e.num_hashes; ++i) {
                        sum += e.hashes[i];
                    }
                    for (std::uint32_t i = 0; i < e.num_tokens; ++i) {
                        sum += e.tokens[i];
                    }
                }
            }
            // Bounded by the reply: a block takes more than a byte.
            if (out.indexed + out.not_indexed.size() > size || sum == 0x5eed5eed5eed5eedU) {
                std::abort();
            }
        }
        translator.lost();
        if (translator.next(0)) {
            std::abort();
        }
    }
    return 0;
}
