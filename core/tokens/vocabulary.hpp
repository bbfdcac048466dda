// Token spellings and their ids: a table from bytes to id and back.
//
// Threads: build on one, then read on any.
// Limits:  ids below kMaxTokenId, so a hostile file cannot ask for a table of 4 G entries.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/tokens/huge_vector.hpp"
#include "core/tokens/token_id.hpp"

namespace sluice::tokens {

class Vocabulary {
public:
    // Room for that many entries and bytes of text; more is possible.
    void reserve(std::size_t entries, std::size_t bytes);

    // Adds an entry. A token or an id that is there already is an error.
    Status add(std::string_view token, TokenId id);

    // kNoToken if absent.
    TokenId find(std::string_view token) const noexcept;
    // Empty if the id is not used.
    std::string_view at(TokenId id) const noexcept;

    std::size_t size() const noexcept { return entries_; }
    // One more than the largest id.
    TokenId id_end() const noexcept { return static_cast<TokenId>(slots_of_id_.size()); }
    // Bytes of the longest token.
    std::size_t longest() const noexcept { return longest_; }

private:
    struct Where {
        std::uint32_t begin = 0;
        std::uint32_t length = kUnused;
    };
    static constexpr std::uint32_t kUnused = 0xFFFFFFFF;

    void rebuild(std::size_t slots);

    // Half of the hash beside the id, so that most of what is not here is not compared.
    struct Slot {
        TokenId id = kNoToken;
        std::uint32_t tag = 0;
    };

    std::string text_;
    HugeVector<Where> slots_of_id_;
    HugeVector<Slot> table_;  // open addressing, a power of two, at most half full
    std::size_t entries_ = 0;
    std::size_t longest_ = 0;
};

}  // namespace sluice::tokens
