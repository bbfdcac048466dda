// Finds added tokens in a text: where a prompt is cut before anything else looks at it.
//
// Leftmost-longest over all tokens of one kind (matched in raw or in normalized text), without
// overlap. lstrip and rstrip widen a match over neighbouring white space, single_word drops it
// beside a word character; a dropped match has still consumed its place.
//
// Threads: any; immutable after construction.
// Limits:  a search costs at most the length of the longest token a byte of text.
// Source:  crate tokenizers 0.22.2, tokenizer/added_vocabulary.rs.
#pragma once
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/token_id.hpp"

namespace sluice::tokens {

struct AddedToken {
    std::string content;
    TokenId id = 0;
    bool is_single_word = false;
    bool strips_left = false;
    bool strips_right = false;
    bool is_normalized = false;  // sought in normalized text
    bool is_special = false;     // of interest to decoding only
};

class AddedTokens {
public:
    struct Match {
        std::size_t begin;  // may be before the end of the match before, see the cursor
        std::size_t end;
        TokenId id;
    };

    AddedTokens() = default;
    // Tokens of equal content: the last one counts. Empty ones are ignored.
    explicit AddedTokens(std::vector<AddedToken> tokens);

    bool empty() const noexcept { return tokens_.empty(); }

    // Walks the matches of one text. Text between the end of the match before and `begin` is a
    // segment if there is any.
    class Cursor {
    public:
        Cursor(const AddedTokens& tokens, std::string_view text) : tokens_(tokens), text_(text) {}
        bool next(Match& match);

    private:
        const AddedTokens& tokens_;
        std::string_view text_;
        std::size_t from_ = 0;      // where the search goes on
        std::size_t last_end_ = 0;  // of the match before, with what it swallowed
    };

private:
    struct Edge {
        unsigned char byte;
        std::uint32_t node;
    };
    struct Node {
        std::uint32_t first_edge = 0;
        std::uint32_t edge_count = 0;
        std::uint32_t token = kNone;
    };
    struct Raw {
        std::size_t begin;
        std::size_t end;
        std::uint32_t token;
    };
    static constexpr std::uint32_t kNone = 0xFFFFFFFF;

    std::uint32_t build(std::size_t from, std::size_t to, std::size_t depth);
    bool find(std::string_view text, std::size_t from, Raw& raw) const noexcept;
    bool longest_at(std::string_view text, std::size_t at, Raw& raw) const noexcept;

    std::vector<AddedToken> tokens_;  // by content
    std::vector<Node> nodes_;         // a trie over bytes; 0 is the root
    std::vector<Edge> edges_;
    std::array<std::uint32_t, 256> root_{};  // node after the first byte, kNone if there is none
    std::bitset<65536> pairs_;               // first two bytes that can start a token
    std::bitset<256> singles_;               // first bytes that start any
    int only_first_ = -1;                    // the one first byte, if there is just one
};

}  // namespace sluice::tokens
