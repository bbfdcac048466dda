#include <string>

#include "core/tokens/scan_each.hpp"
#include "core/tokens/scan_matches.hpp"
#include "core/tokens/scanner.hpp"

namespace sluice::tokens {
namespace {

struct Literal {
    std::string what;

    Span operator()(const char* text, std::uint32_t from, std::uint32_t end) const noexcept {
        const std::size_t found = std::string_view(text, end).find(what, from);
        if (found == std::string_view::npos) {
            return {end, end};
        }
        return {static_cast<std::uint32_t>(found), static_cast<std::uint32_t>(found + what.size())};
    }
};

struct BeforeMark {
    std::string mark;
    bool splits_runs;

    const char* operator()(const char* p, const char* end) const noexcept {
        const std::string_view all(p, static_cast<std::size_t>(end - p));
        std::size_t at = all.starts_with(mark) ? mark.size() : 0;
        while (!splits_runs && all.substr(at).starts_with(mark)) {
            at += mark.size();
        }
        // At least one character, so that the search below cannot find the mark we stand on.
        const std::size_t found = all.find(mark, at);
        return found == std::string_view::npos ? end : p + found;
    }
};

}  // namespace

std::unique_ptr<const Scanner> make_literal_scanner(std::string_view literal, Behavior behavior) {
    return std::make_unique<const scan::Matches<Literal>>(Literal{std::string(literal)}, behavior);
}

std::unique_ptr<const Scanner> make_mark_scanner(std::string_view mark, bool splits_runs) {
    return std::make_unique<const scan::Each<BeforeMark>>(
        BeforeMark{std::string(mark), splits_runs});
}

}  // namespace sluice::tokens
