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
#include <algorithm>
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

    struct Start {
        TokenId id = kNoToken;
        std::uint16_t left = 0;   // the bar that text before it must pass; 0 bars nothing
        std::uint16_t right = 0;  // ... after it
    };
    // The start of a character over U+007F, or of any where the model is over characters.
    const Start& of(char32_t c) const noexcept { return pages_[page_of_[c >> 8U]][c & 0xFFU]; }
    bool is_barred_before(std::uint16_t bar, std::string_view text) const noexcept {
        return !text.empty() && bars_[bar].bytes[static_cast<unsigned char>(text.back())] &&
               std::any_of(bars_[bar].texts.begin(), bars_[bar].texts.end(),
                           [text](const std::string& t) { return text.ends_with(t); });
    }
    bool is_barred_after(std::uint16_t bar, std::string_view text) const noexcept {
        return !text.empty() && bars_[bar].bytes[static_cast<unsigned char>(text.front())] &&
               std::any_of(bars_[bar].texts.begin(), bars_[bar].texts.end(),
                           [text](const std::string& t) { return text.starts_with(t); });
    }

private:
    using Page = std::array<Start, 256>;
    // Texts that bar a character beside them from starting whole; a handful at most in real models.
    struct Bar {
        std::bitset<256> bytes;  // the last (first) bytes of the texts, asked first
        std::vector<std::string> texts;
    };

    CharStarts();
    Start& at(char32_t c);
    std::uint16_t intern(std::vector<std::string> texts, bool is_before);

    std::array<std::uint16_t, 0x1100> page_of_{};
    HugeVector<Page> pages_;  // 0 has no starts
    std::vector<Bar> bars_;   // 0 bars nothing
};

}  // namespace sluice::tokens
