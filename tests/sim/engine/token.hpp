// A token as the engines count it.
#pragma once
#include <cstdint>

namespace sluice::sim {

using TokenId = std::uint32_t;

}  // namespace sluice::sim
