// A rule body, NUL, a merge patch: an answer always, and what a patch makes can be stored and
// patched again without a change.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/rules/edit.hpp"

using namespace sluice::rules;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Defaults defaults;
    static const Loaded loaded{{"vllm"}, {"rr", "lc", "wrr"}};
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t nul = input.find('\0');
    if (nul == std::string_view::npos) {
        return 0;
    }
    const Parsed rule = parse_rule(input.substr(0, nul), defaults, loaded);
    if (rule.refusal) {
        return 0;
    }
    const std::string_view patch = input.substr(nul + 1);
    Edited edited = merged(rule.rule, patch);
    if (const auto* refusal = std::get_if<Refusal>(&edited)) {
        if (refusal->status < 400 || refusal->status > 499 || refusal->code.empty()) {
            std::abort();
        }
        return 0;
    }
    const Parsed next = parse_document(std::move(std::get<Json>(edited)), defaults, loaded);
    if (next.refusal) {
        return 0;
    }
    // The key stays, and the same patch over its own result says nothing new.
    Edited again = merged(next.rule, patch);
    if (next.rule.key != rule.rule.key || std::get_if<Json>(&again) == nullptr) {
        std::abort();
    }
    const Parsed same = parse_document(std::move(std::get<Json>(again)), defaults, loaded);
    if (same.refusal || same.rule.json != next.rule.json) {
        std::abort();
    }
    return 0;
}
