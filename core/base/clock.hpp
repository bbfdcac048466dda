// The two clocks of the program.
//
// Threads: any.
// Units:   microseconds.
#pragma once
#include <cstdint>
#include <string>

namespace sluice {

// Monotonic; the clock every *_us deadline and age refers to.
std::uint64_t now_us() noexcept;
// Since the epoch; for records that people read.
std::uint64_t wall_us() noexcept;
// "2025-01-31T12:00:00.000001Z", RFC 3339, of a wall_us().
std::string rfc3339(std::uint64_t wall_us);

}  // namespace sluice
