// Byte-pair encoding of one split: start symbols, then merges by rank.
//
// The lowest rank goes first, of equals the leftmost. Short words scan for it, long ones keep a
// heap: a word of n symbols costs O(n log n).
//
// Threads: any; immutable after construction.
// Errors:  none; characters the model cannot express become its unknown token or are dropped.
// Limits:  working memory of about 40 bytes a symbol for words over kShortSymbols, given back.
// Source:  crate tokenizers 0.22.2, models/bpe; tests/vectors/tokens/*.jsonl.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tokens/char_starts.hpp"
#include "core/tokens/id_sink.hpp"
#include "core/tokens/merge_table.hpp"
#include "core/tokens/vocabulary.hpp"

namespace sluice::tokens {

class Bpe {
public:
    static constexpr std::size_t kShortSymbols = 64;

    struct Model {
        bool is_byte_level = false;
        bool ignores_merges = false;  // a split that is a vocabulary entry is that token
        bool fuses_unknown = false;
        TokenId unknown = kNoToken;
        // The tokens of single bytes: in a byte-level model its alphabet, else those of
        // byte_fallback, all kNoToken without it.
        std::vector<TokenId> id_of_byte = std::vector<TokenId>(256, kNoToken);
        // Every token's bytes as they are in text; tokens no text can reach are not in it.
        Vocabulary bytes;
        std::vector<std::array<TokenId, 2>> merges;  // by rank
        std::vector<TokenId> joined;                 // by rank
    };

    explicit Bpe(Model model);

    // Appends the ids of `word`, valid UTF-8.
    void encode(std::string_view word, IdSink& out) const;

    // True if no merge joins another character with a following `mark`, so that a word may be cut
    // before each mark that follows something else.
    bool may_cut_before(std::string_view mark) const;

    // One more than the largest id that text can lead to.
    TokenId id_end() const noexcept { return model_.bytes.id_end(); }
    // The split that gives just this token; empty if there is none.
    std::string_view split_of(TokenId id) const noexcept {
        return gives_itself_[id] ? model_.bytes.at(id) : std::string_view();
    }

private:
    std::size_t start(std::string_view word, TokenId* out) const noexcept {
        return has_whole_alphabet_ ? start_bytes(word, out) : start_any(word, out);
    }
    std::size_t start_bytes(std::string_view word, TokenId* out) const noexcept;
    std::size_t start_any(std::string_view word, TokenId* out) const noexcept;
    void merge(std::string_view word, IdSink& out) const;
    std::size_t merge_short(TokenId* symbols, std::size_t count) const noexcept;
    std::size_t merge_long(TokenId* symbols, std::size_t count) const;

    Model model_;
    MergeTable merges_;
    CharStarts starts_;
    std::array<TokenId, 128> ascii_{};
    bool has_whole_alphabet_ = false;  // byte-level, and every byte has a token
    std::vector<bool> gives_itself_;   // by id: its text, as a split, gives just it
};

}  // namespace sluice::tokens
