#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <memory>
#include <string>

#include "core/tokens/onig_pattern.hpp"
#include "core/tokens/scan_matches.hpp"
#include "core/tokens/scanner.hpp"

namespace sluice::tokens {
namespace {

// Steps and KiB of backtracking one match may take before the text is refused.
constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;

template <auto Free>
struct Freed {
    template <class T>
    void operator()(T* p) const noexcept {
        Free(p);
    }
};
using CompileContext = std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using Program = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;

struct Regex {
    std::shared_ptr<const pcre2_code> program;
    std::shared_ptr<pcre2_match_context> limits;  // read only while matching

    Span operator()(const char* text, std::uint32_t from, std::uint32_t end) const noexcept {
        const MatchData data(pcre2_match_data_create(1, nullptr));
        if (!data) {
            return scan::Matches<Regex>::kFailed;
        }
        const auto run = [&](std::uint32_t options) {
            return pcre2_match(program.get(), reinterpret_cast<PCRE2_SPTR>(text), end, from,
                               options | PCRE2_NO_UTF_CHECK, data.get(), limits.get());
        };
        int found = run(0);
        if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
            found = run(PCRE2_NO_JIT);
        }
        if (found == PCRE2_ERROR_NOMATCH) {
            return {end, end};
        }
        if (found < 0) {
            return scan::Matches<Regex>::kFailed;
        }
        const PCRE2_SIZE* const at = pcre2_get_ovector_pointer(data.get());
        return {static_cast<std::uint32_t>(at[0]), static_cast<std::uint32_t>(at[1])};
    }
};

}  // namespace

Result<std::unique_ptr<const Scanner>> make_regex_scanner(std::string_view pattern,
                                                          Behavior behavior) {
    const Result<std::string> rewritten = to_pcre2(pattern);
    if (!rewritten) {
        return rewritten.error();
    }
    const CompileContext context(pcre2_compile_context_create(nullptr));
    MatchContext limits(pcre2_match_context_create(nullptr));
    if (!context || !limits) {
        return Error{Code::Internal, "out of memory"};
    }
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    pcre2_set_match_limit(limits.get(), kMatchLimit);
    pcre2_set_heap_limit(limits.get(), kHeapLimitKib);
    int code = 0;
    PCRE2_SIZE where = 0;
    Program program(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten->data()),
                                  rewritten->size(), PCRE2_UTF | PCRE2_UCP, &code, &where,
                                  context.get()));
    if (!program) {
        std::array<PCRE2_UCHAR, 256> text{};
        pcre2_get_error_message(code, text.data(), text.size());
        return Error{Code::Invalid,
                     std::string("pattern: ") + reinterpret_cast<const char*>(text.data())};
    }
    std::uint32_t can_be_empty = 0;
    pcre2_pattern_info(program.get(), PCRE2_INFO_MATCHEMPTY, &can_be_empty);
    if (can_be_empty != 0) {
        return Error{Code::Unsupported, "pattern: it can match nothing"};
    }
    // Where it cannot be compiled to machine code, matching interprets it.
    (void)pcre2_jit_compile(program.get(), PCRE2_JIT_COMPLETE);
    Regex regex{std::shared_ptr<const pcre2_code>(
                    program.release(),
                    [](const pcre2_code* p) { pcre2_code_free(const_cast<pcre2_code*>(p)); }),
                std::shared_ptr<pcre2_match_context>(limits.release(), pcre2_match_context_free)};
    return std::unique_ptr<const Scanner>(
        std::make_unique<const scan::Matches<Regex>>(std::move(regex), behavior));
}

}  // namespace sluice::tokens
