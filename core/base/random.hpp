// Random numbers and identifiers. Not for secrets.
//
// Threads: any; one generator a thread, seeded from the system.
#pragma once
#include <cstdint>
#include <string>

namespace sluice {

std::uint64_t random_u64() noexcept;
// 32 lower-case hex digits.
std::string random_hex_id();
// A version 4 UUID, RFC 9562.
std::string random_uuid();

}  // namespace sluice
