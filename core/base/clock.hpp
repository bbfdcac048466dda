// The two clocks of the program.
//
// Threads: any.
// Units:   microseconds.
#pragma once
#include <cstdint>

namespace sluice {

// Monotonic; the clock every *_us deadline and age refers to.
std::uint64_t now_us() noexcept;
// Since the epoch; for records that people read.
std::uint64_t wall_us() noexcept;

}  // namespace sluice
