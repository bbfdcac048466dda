// Any bytes as a rule body: an answer always, and what is accepted is stable under its own text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/rules/parse.hpp"

using namespace sluice::rules;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Defaults defaults;
    static const Loaded loaded{{"vllm"}, {"rr", "lc", "wrr"}};
    const Parsed first = parse_rule({reinterpret_cast<const char*>(data), size}, defaults, loaded);
    if (first.refusal) {
        const Refusal& r = *first.refusal;
        if (r.status < 400 || r.status > 499 || r.code.empty() || r.message.empty()) {
            std::abort();
        }
        return 0;
    }
    // What is stored is read at the next start: it must be accepted and mean the same.
    const Parsed again = parse_rule(first.rule.json, defaults, loaded);
    if (again.refusal || again.rule.json != first.rule.json ||
        again.rule.effective != first.rule.effective || again.rule.key != first.rule.key ||
        again.rule.endpoints.size() != first.rule.endpoints.size()) {
        std::abort();
    }
    return 0;
}
