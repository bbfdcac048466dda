// Any text as the answers of an engine's small endpoints, and as a tool's description of a prompt.
#include <cstdlib>
#include <vector>

#include "plugins/trtllm/admission.hpp"
#include "plugins/trtllm/block_hashes.hpp"
#include "plugins/trtllm/facts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sluice::trtllm;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto info = parse_server_info(text)) {
        for (const Settings& settings : {Settings{}, Settings{32}}) {
            const Admission verdict = judge(*info, settings, {});
            const bool is_refused = verdict.kind == Admission::Kind::Refused;
            if (is_refused != (verdict.block_tokens == 0) || is_refused != (verdict.why != 0) ||
                verdict.detail.size() > 256) {
                std::abort();
            }
        }
    }
    (void)parse_version(text);
    const auto models = parse_models(text);
    if (models && models->size() > kMaxModels) {
        std::abort();
    }
    (void)parse_load(text);
    try {
        const std::vector<std::uint32_t> tokens(16, 1);
        if (block_hashes(text, tokens, 8, 8).size() != 2) {
            std::abort();
        }
    } catch (const sluice::Failure&) {
        return 0;  // not a description
    }
    return 0;
}
