// The number of a token in a model's vocabulary.
#pragma once
#include <cstdint>

namespace sluice::tokens {

using TokenId = std::uint32_t;
inline constexpr TokenId kNoToken = 0xFFFFFFFF;
// Ids stay below this, so a hostile file cannot ask for a table of 4 G entries.
inline constexpr TokenId kMaxTokenId = TokenId{1} << 24U;

}  // namespace sluice::tokens
