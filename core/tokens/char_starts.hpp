// What a character starts as, before any merge.
//
// In a model over characters that is its vocabulary entry. In a byte-level model it is its bytes;
// but where the bytes of a character always merge into the same few tokens before anything else can
// touch them, starting from those gives the same result and saves most of the work for CJK text.
//
// That holds for a character c whose bytes alone merge into tokens t1..tk by merges of ranks up to
// R, if
//  - every merge that c takes part in as a whole (k = 1) has a rank over R, and
//  - every merge of a part of c with a token beside c has a rank over R, or cannot happen because
//    the text beside c is another. Those tokens' texts are remembered, for the left and the right.
// For then each step of the plain process that touches c is inner to it until it is t1..tk, and a
// step elsewhere that was taken before had a lower rank than any that c, being so far early, makes
// possible.
//
// Threads: build on one, then read on any.
#pragma once
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/huge_vector.hpp"
#include "core/tokens/merge_table.hpp"
#include "core/tokens/vocabulary.hpp"

namespace sluice::tokens {

class CharStarts {
public:
    // `bytes` has every token that text can lead to, by its bytes.
    static CharStarts for_bytes(const Vocabulary& bytes, const std::vector<TokenId>& id_of_byte,
                                const MergeTable& merges,
                                const std::vector<std::array<TokenId, 2>>& merge_list);
    static CharStarts for_characters(const Vocabulary& vocabulary);

    static constexpr std::size_t kMaxTokens = 3;

    // Writes the tokens that the character `c` at [p, after) of the word [begin, end) starts as and
    // returns how many; 0 if it starts as its bytes or is not known. `out` has kMaxTokens places.
    // Asked for characters over U+007F, and for any where the model is over characters.
    std::size_t of(char32_t c, const char* begin, const char* p, const char* after, const char* end,
                   TokenId* out) const noexcept {
        const Start& start = pages_[page_of_[c >> 8U]][c & 0xFFU];
        // Without branches: which bar a character has is as random as the text.
        const bool has_before = p != begin;
        const bool has_after = after != end;
        const auto before = static_cast<unsigned char>(p[has_before ? -1 : 0]);
        const auto next = static_cast<unsigned char>(after[has_after ? 0 : -1]);
        const bool may_be_barred = (has_before & bar_bytes_[start.left][before]) |
                                   (has_after & bar_bytes_[start.right][next]);
        if (may_be_barred && is_barred(start, {begin, p}, {after, end})) {
            return 0;
        }
        std::size_t count = 0;
        for (std::size_t i = 0; i < kMaxTokens; ++i) {
            out[i] = start.ids[i];
            count += start.ids[i] != kNoToken ? 1 : 0;
        }
        return count;
    }

private:
    struct Start {
        std::array<TokenId, kMaxTokens> ids = {kNoToken, kNoToken, kNoToken};
        std::uint16_t left = 0;   // the bar that text before it must pass; 0 bars nothing
        std::uint16_t right = 0;  // ... after it
    };
    using Page = std::array<Start, 256>;
    // Texts that bar a character beside them from starting whole; a handful at most in real models.
    using Bar = std::vector<std::string>;

    CharStarts();
    Start& at(char32_t c);
    bool is_barred(const Start& start, std::string_view before,
                   std::string_view after) const noexcept;
    std::uint16_t add_bar(Bar texts, bool is_before);

    std::array<std::uint16_t, 0x1100> page_of_{};
    HugeVector<Page> pages_;                   // 0 has no starts
    std::vector<Bar> bars_;                    // 0 bars nothing
    std::vector<std::bitset<256>> bar_bytes_;  // last (first) bytes of each bar's texts
};

}  // namespace sluice::tokens
