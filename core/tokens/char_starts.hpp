// What a character starts as, before any merge.
//
// In a model over characters that is its vocabulary entry. In a byte-level model it is its bytes;
// but where the bytes of a character always merge into one token before anything else can touch
// them, starting from that token gives the same result and saves most of the work for CJK text.
//
// That holds for a character c whose bytes alone merge into one token, by merges of ranks up to R,
// if
//  - every merge that c takes part in as a whole has a rank over R, and
//  - every merge of a part of c with what is beside c has a rank over R, or cannot happen because
//    the neighbouring byte is another. Those bytes are remembered, for the left and for the right.
// For then each step of the plain process that touches c is inner to it until c is whole, and a
// step elsewhere that was taken before had a lower rank than any that c, being whole early, makes
// possible.
//
// Threads: build on one, then read on any.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

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

    struct Start {
        TokenId id = kNoToken;
        std::uint16_t left = 0;   // the set of bytes that may not be before it
        std::uint16_t right = 0;  // ... after it
    };
    // The start of a character over U+007F, or of any where the model is over characters.
    const Start& of(char32_t c) const noexcept { return pages_[page_of_[c >> 8U]][c & 0xFFU]; }
    bool is_barred(std::uint16_t set, unsigned char neighbour) const noexcept {
        return sets_[set][neighbour];
    }

private:
    using Page = std::array<Start, 256>;
    using ByteSet = std::bitset<256>;

    CharStarts();
    Start& at(char32_t c);
    std::uint16_t intern(const ByteSet& set);

    std::array<std::uint16_t, 0x1100> page_of_{};
    std::vector<Page> pages_;    // 0 has no starts
    std::vector<ByteSet> sets_;  // 0 is empty
};

}  // namespace sluice::tokens
