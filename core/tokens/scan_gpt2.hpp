// The split ByteLevel makes by itself (GPT-2), in one pass:
//
//   's|'t|'re|'ve|'m|'ll|'d | ?\p{L}+ | ?\p{N}+ | ?[^\s\p{L}\p{N}]+ | \s+(?!\S) | \s+
//
// Threads: any; pure.
// Source:  crate tokenizers 0.22.2, pre_tokenizers/byte_level.rs.
#pragma once
#include <limits>

#include "core/tokens/scan_runs.hpp"

namespace sluice::tokens::scan {

struct Gpt2 {
    static constexpr std::array<bool, 256> kPrefix = [] {
        std::array<bool, 256> table{};
        table[' '] = true;
        return table;
    }();
    static constexpr bool kSplitsCase = false;

    const char* operator()(const char* p, const char* end) const noexcept {
        if (*p == '\'') {
            if (const char* const stop = contraction(p, end); stop != nullptr) {
                return stop;
            }
        }
        const char* const q = *p == ' ' ? p + 1 : p;
        if (q != end) {
            if (is_letter_at(q, end, unicode::kLetter)) {
                return skip_letters(q, end, unicode::kLetter);
            }
            const char* stop = skip_numbers(q, end, std::numeric_limits<std::size_t>::max());
            if (stop == q) {
                stop = skip_others(q, end, unicode::kLetter | unicode::kNumber);
            }
            if (stop != q) {
                return stop;
            }
        }
        return white(p, end);
    }

private:
    static const char* contraction(const char* p, const char* end) noexcept {
        const auto follows = [p, end](std::string_view what) {
            return std::string_view(p, static_cast<std::size_t>(end - p)).starts_with(what);
        };
        for (const std::string_view what : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
            if (follows(what)) {
                return p + what.size();
            }
        }
        return nullptr;
    }
    static const char* white(const char* p, const char* end) noexcept {
        const char* const begin = p;
        const char* last = p;
        while (p != end) {
            const Char c = char_at(p);
            if (!unicode::is_white(c.cls)) {
                break;
            }
            last = p;
            p += c.length;
        }
        return p == end || last == begin ? p : last;
    }
};

}  // namespace sluice::tokens::scan
