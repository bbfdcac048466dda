// What a character starts as, before any merge.
//
// In a model over characters that is its vocabulary entry. In a byte-level model it is its bytes;
// but where the bytes of a character always merge into one token before anything else can touch
// them, starting from that token gives the same result and saves most of the work for CJK text.
//
// That holds for a character c whose bytes alone merge into one token, by merges of ranks up to R,
// if
//  - every merge that c takes part in as a whole has a rank over R, and
//  - every merge of a part of c with a token beside c has a rank over R, or cannot happen because
//    the text beside c is another. Those tokens' texts are remembered, for the left and the right.
// For then each step of the plain process that touches c is inner to it until c is whole, and a
// step elsewhere that was taken before had a lower rank than any that c, being whole early, makes
// possible.
//
// Threads: build on one, then read on any.
#pragma once
#include <array>
#include <bitset>
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
    // `text_of` has every token's own bytes by id (empty: not reachable by text).
    static CharStarts for_bytes(const Vocabulary& bytes, const std::vector<TokenId>& id_of_byte,
                                const MergeTable& merges,
                                const std::vector<std::array<TokenId, 2>>& merge_list);
    static CharStarts for_characters(const Vocabulary& vocabulary);

    // The token that the character `c` at [p, after) of the word [begin, end) starts as; kNoToken
    // if it starts as its bytes or is not known. Asked for characters over U+007F, and for any
    // where the model is over characters.
    TokenId whole(char32_t c, const char* begin, const char* p, const char* after,
                  const char* end) const noexcept {
        const Start start = pages_[page_of_[c >> 8U]][c & 0xFFU];
        // Without branches: which bar a character has is as random as the text.
        const bool has_before = p != begin;
        const bool has_after = after != end;
        const auto before = static_cast<unsigned char>(p[has_before ? -1 : 0]);
        const auto next = static_cast<unsigned char>(after[has_after ? 0 : -1]);
        const bool may_be_barred = (has_before & bar_bytes_[start.left][before]) |
                                   (has_after & bar_bytes_[start.right][next]);
        if (may_be_barred && is_barred(start, {begin, p}, {after, end})) {
            return kNoToken;
        }
        return start.id;
    }

private:
    struct Start {
        TokenId id = kNoToken;
        std::uint16_t left = 0;   // the bar that text before it must pass; 0 bars nothing
        std::uint16_t right = 0;  // ... after it
    };
    using Page = std::array<Start, 256>;
    // Texts that bar a character beside them from starting whole; a handful at most in real models.
    using Bar = std::vector<std::string>;
    CharStarts();
    Start& at(char32_t c);
    bool is_barred(Start start, std::string_view before, std::string_view after) const noexcept;
    std::uint16_t intern(std::vector<std::string> texts, bool is_before);

    std::array<std::uint16_t, 0x1100> page_of_{};
    HugeVector<Page> pages_;                   // 0 has no starts
    std::vector<Bar> bars_;                    // 0 bars nothing
    std::vector<std::bitset<256>> bar_bytes_;  // last (first) bytes of each bar's texts
};

}  // namespace sluice::tokens
